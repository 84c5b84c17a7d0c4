// What the health service says, asked over the wire as a load balancer asks.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>

#include "server/rpc/health_watch.h"
#include "server/rpc/security_test_util.h"

namespace assay::rpc {
namespace {

// grpc.health.v1.HealthCheckResponse with the one field `status`.
constexpr std::string_view kServing = "\x08\x01", kNotServing = "\x08\x02";

std::string Check(TestServer& server) {
  grpc::GenericStub stub(server.channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice nothing("");
  const grpc::ByteBuffer empty(&nothing, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", empty, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice slice;
  EXPECT_TRUE(response.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

bool Becomes(TestServer& server, std::string_view wanted) {
  for (int i = 0; i < 1000 && Check(server) != wanted; ++i) ::usleep(10'000);
  return Check(server) == wanted;
}

TEST(Health, FollowsWhetherTheCoordinatorIsWell) {
  TestServer server(false);
  std::atomic<bool> well{true};
  {
    HealthWatch watch([&] { return well.load(); }, server.server.get(), 10);
    EXPECT_TRUE(Becomes(server, kServing));
    well = false;
    EXPECT_TRUE(Becomes(server, kNotServing));
    well = true;
    EXPECT_TRUE(Becomes(server, kServing)) << "it does not go on by itself";
  }
  EXPECT_EQ(Check(server), kNotServing) << "a coordinator that ends";
}

TEST(Health, AStoreWithRoomAndWithoutDamageIsWell) {
  TestServer server(false);
  EXPECT_TRUE(IsWell(*server.engine));
}

TEST(Health, AFullDiskIsNotWell) {
  std::string dir = "/tmp/assay_healthXXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  EngineOptions options;
  options.data_dir = dir + "/store";
  options.ballast_bytes = 0;
  options.min_free_bytes = uint64_t{1} << 60;
  {
    const auto engine = Engine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_FALSE(IsWell(**engine));
  }
  EXPECT_TRUE(RemoveTree(dir).ok());
}

}  // namespace
}  // namespace assay::rpc
