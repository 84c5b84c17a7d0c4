// Each number of Limits, and what a client sees beyond it.

#include "server/rpc/limits.h"

#include <gmock/gmock.h>
#include <grpc/compression.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <thread>

#include "assay/v1/blob.grpc.pb.h"
#include "assay/v1/report.grpc.pb.h"
#include "assay/v1/run.grpc.pb.h"
#include "assay/v1/suite.grpc.pb.h"
#include "assay/v1/worker.grpc.pb.h"
#include "server/rpc/security_test_util.h"
#include "storage/base/digest.h"

namespace assay::rpc {
namespace {

// A long poll of worker `name`, which holds its call for up to half a minute.
std::string LongPoll(const std::string& name) {
  v1::SynchronizeRequest request;
  request.set_protocol_version(1);
  request.set_worker_id(name);
  request.set_incarnation("0123456789abcdef");
  request.set_tp(1);
  request.set_wait_ms(30'000);
  return request.SerializeAsString();
}

// An upload that has begun and waits for its bytes.
class OpenUpload {
 public:
  OpenUpload(TestServer& server, int number, const std::string& token = "")
      : stub_(v1::BlobService::NewStub(server.channel)),
        token_(token),
        sha256_(Sha256Hex("upload " + std::to_string(number))) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    writer_ = stub_->Write(&context_, &response_);
    v1::WriteRequest request;
    request.set_sha256(sha256_);
    request.set_size(100);
    request.set_data("x");
    writer_->Write(request);
  }
  ~OpenUpload() {
    context_.TryCancel();
    if (!finished_) writer_->Finish();
  }
  // Waits until the server has taken it up: it holds a place then, which no other call can have.
  void Taken() const {
    v1::QueryWriteStatusRequest request;
    request.set_sha256(sha256_);
    v1::QueryWriteStatusResponse response;
    for (int i = 0; i < 1000 && response.committed_size() == 0; ++i) {
      grpc::ClientContext context;
      if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
      EXPECT_TRUE(stub_->QueryWriteStatus(&context, request, &response).ok());
      ::usleep(10'000);
    }
    EXPECT_EQ(response.committed_size(), 1u);
  }
  // Ends the stream; the reason token of the answer.
  std::string Finish() {
    finished_ = true;
    writer_->WritesDone();
    writer_->Finish();
    const auto& trailers = context_.GetServerTrailingMetadata();
    const auto it = trailers.find("assay-reason");
    return it == trailers.end() ? "" : std::string(it->second.data(), it->second.size());
  }

 private:
  std::unique_ptr<v1::BlobService::Stub> stub_;
  const std::string token_, sha256_;
  grpc::ClientContext context_;
  v1::WriteResponse response_;
  bool finished_ = false;
  std::unique_ptr<grpc::ClientWriter<v1::WriteRequest>> writer_;
};

// The server has taken up `count` uploads when one more is refused.
bool RefusedSoon(TestServer& server, const std::string& token = "") {
  for (int i = 0; i < 500; ++i) {
    v1::WriteRequest empty;
    const CallResult result = server.Call("BlobService/Write", empty.SerializeAsString(), token);
    if (result.reason == "TOO_MANY_UPLOADS") {
      EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);  // try again
      return true;
    }
    ::usleep(20'000);
  }
  return false;
}

TEST(Limits, MessagesBeyondTheirSizeAreRefused) {
  ServerOptions options;
  options.limits.message_bytes_max = 100'000;
  TestServer server(false, options);
  v1::FindMissingRequest request;
  request.add_sha256(std::string(99'000, '0'));
  EXPECT_EQ(server.Call("BlobService/FindMissing", request.SerializeAsString()).reason,
            "DIGEST_INVALID");
  request.add_sha256(std::string(10'000, '0'));
  EXPECT_EQ(server.Call("BlobService/FindMissing", request.SerializeAsString()).status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Limits().message_bytes_max, 4 << 20);
}

TEST(Limits, HeadersBeyondTheirSizeAreRefused) {
  TestServer server(false);
  for (const auto& [bytes, fits] : {std::pair(8'000, true), std::pair(20'000, false)}) {
    grpc::ClientContext context;
    context.AddMetadata("padding", std::string(static_cast<size_t>(bytes), 'x'));
    const CallResult result = server.Call("RunService/ListRuns", "", "", &context);
    EXPECT_EQ(result.status.ok(), fits) << bytes << result.status.error_message();
  }
}

TEST(Limits, CompressedMessagesAreRefused) {
  TestServer server(false);
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::FindMissingRequest request;
    request.add_sha256(std::string(100'000, '0'));
    EXPECT_EQ(server.Call("BlobService/FindMissing", request.SerializeAsString(), "", &context)
                  .status.error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
}

TEST(Limits, CallsOfOnePeerLeaveRoomForOthers) {
  ServerOptions options;
  options.limits.calls_per_peer_max = 3;
  TestServer server(true, options);
  std::vector<std::thread> polls;
  for (int i = 0; i < 3; ++i) {
    // The call below that asks again and again may hold the last place just then, so a poll that is
    // refused asks again.
    polls.emplace_back([&, i] {
      while (server
                 .Call("WorkerService/Synchronize", LongPoll("w" + std::to_string(i)),
                       server.token["worker"])
                 .reason == "TOO_MANY_CALLS") {
      }
    });
  }
  std::string reason;
  for (int i = 0; i < 500 && reason.empty(); ++i) {
    reason = server.Call("ReceiptService/GetPublicKey", "", server.token["worker"]).reason;
    ::usleep(20'000);
  }
  EXPECT_EQ(reason, "TOO_MANY_CALLS");
  EXPECT_TRUE(server.Call("ReceiptService/GetPublicKey", "", server.token["reader"]).status.ok());
  server.engine->BeginDrain();  // ends the polls
  for (std::thread& poll : polls) poll.join();
  EXPECT_TRUE(server.Call("ReceiptService/GetPublicKey", "", server.token["worker"]).status.ok());
}

TEST(Limits, UploadsOfAllAndOfOnePeer) {
  ServerOptions options;
  options.limits.uploads_max = 2;
  {
    TestServer server(false, options);
    const OpenUpload a(server, 1), b(server, 2);
    a.Taken(), b.Taken();
    EXPECT_TRUE(RefusedSoon(server));
  }
  options.limits.uploads_max = 100;
  options.limits.uploads_per_peer_max = 1;
  TestServer server(true, options);
  const OpenUpload a(server, 1, server.token["worker"]);
  a.Taken();
  EXPECT_TRUE(RefusedSoon(server, server.token["worker"]));
  EXPECT_EQ(server.Call("BlobService/Write", "", server.token["submitter"]).reason,
            "DIGEST_INVALID");
}

// Streams beyond the limit wait for others to end: here the second call gets no answer in time.
TEST(Limits, StreamsOfOneConnection) {
  ServerOptions options;
  options.limits.streams_per_connection_max = 1;
  TestServer server(false, options);
  {
    const OpenUpload upload(server, 1);
    grpc::ClientContext context;
    // The setting reaches the client with its first answer, so ask until it has.
    auto stub = v1::ReceiptService::NewStub(server.channel);
    v1::GetPublicKeyRequest request;
    v1::PublicKey key;
    grpc::StatusCode code = grpc::StatusCode::OK;
    for (int i = 0; i < 20 && code == grpc::StatusCode::OK; ++i) {
      grpc::ClientContext second;
      second.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
      code = stub->GetPublicKey(&second, request, &key).error_code();
    }
    EXPECT_EQ(code, grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(server.Call("ReceiptService/GetPublicKey").status.ok());
}

// A connection of a certain age is replaced by another one, and calls go on.
TEST(Limits, ConnectionsEndWithAge) {
  ServerOptions options;
  options.limits.connection_age_ms = 300;
  options.limits.connection_age_grace_ms = 300;
  TestServer server(false, options);
  // A stream outlives neither age nor grace.
  OpenUpload upload(server, 1);
  ::usleep(1'500'000);
  EXPECT_EQ(upload.Finish(), "");  // the connection went away: no answer of the service
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(server.Call("ReceiptService/GetPublicKey").status.ok());
    ::usleep(200'000);
  }
}

// A connection without a call is ended, and the next call makes another one.
TEST(Limits, IdleConnectionsEnd) {
  ServerOptions options;
  options.limits.connection_idle_ms = 300;
  TestServer server(false, options);
  EXPECT_TRUE(server.Call("ReceiptService/GetPublicKey").status.ok());
  ASSERT_TRUE(server.channel->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + std::chrono::seconds(60)));
  EXPECT_TRUE(server.Call("ReceiptService/GetPublicKey").status.ok());
  EXPECT_EQ(Limits().connection_idle_ms, 10 * 60'000);
}

// The status of a long poll over a connection that is asked for a sign of life every 20 ms.
grpc::Status PollWithPings(TestServer& server) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel("unix:" + server.dir + "/s",
                                                 grpc::InsecureChannelCredentials(), args);
  auto stub = v1::WorkerService::NewStub(channel);
  grpc::ClientContext context;
  v1::SynchronizeRequest request;
  request.ParseFromString(LongPoll("w"));
  v1::SynchronizeResponse response;
  return stub->Synchronize(&context, request, &response);
}

TEST(Limits, ClientsThatAskTooOftenLoseTheConnection) {
  {
    TestServer server(false);
    EXPECT_EQ(PollWithPings(server).error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  ServerOptions options;
  options.limits.ping_interval_min_ms = 1;
  TestServer server(false, options);
  grpc::Status status = grpc::Status::CANCELLED;
  std::thread poll([&] { status = PollWithPings(server); });
  ::usleep(1'000'000);
  server.engine->BeginDrain();  // ends the poll
  poll.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// A literal header of HPACK, not indexed.
std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

std::string Frame(char type, char flags, char stream, const std::string& payload) {
  const size_t n = payload.size();
  return {std::string{static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n),
                      type, flags, 0, 0, 0, stream} +
          payload};
}

// The other end begins an upload and is never heard of again, not even when it is asked.
TEST(Limits, ASilentPeerIsAskedAndThenClosed) {
  ServerOptions options;
  options.limits.keepalive_ms = 200;
  options.limits.keepalive_timeout_ms = 200;
  TestServer server(false, options);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string path = server.dir + "/s";
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  const std::string headers = Header(":method", "POST") + Header(":scheme", "http") +
                              Header(":path", "/assay.v1.BlobService/Write") +
                              Header(":authority", "x") + Header("te", "trailers") +
                              Header("content-type", "application/grpc");
  const std::string hello =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "") + Frame(1, 4, 1, headers);
  ASSERT_EQ(::write(fd, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  std::string heard(4096, '\0');
  bool closed = false;
  pollfd ready{fd, POLLIN, 0};
  while (!closed && ::poll(&ready, 1, 15'000) == 1) closed = ::read(fd, heard.data(), 4096) <= 0;
  EXPECT_TRUE(closed);
  ::close(fd);
  EXPECT_EQ(Limits().keepalive_ms + Limits().keepalive_timeout_ms, 40'000);
}

// Calls beyond the threads are refused, not queued, and served again when others have ended.
TEST(Limits, CallsBeyondTheThreadsAreRefused) {
  ServerOptions options;
  options.limits.threads_max = 12;
  TestServer server(false, options);
  std::vector<std::thread> polls;
  std::atomic<bool> enough = false;
  for (int i = 0; i < 12; ++i) {
    // Until all threads are taken: a poll that came while the call below held the last one asks
    // again.
    polls.emplace_back([&, i] {
      const std::string poll = LongPoll("w" + std::to_string(i));
      while (!enough && server.Call("WorkerService/Synchronize", poll).status.error_code() ==
                            grpc::StatusCode::RESOURCE_EXHAUSTED) {
        ::usleep(5'000);
      }
    });
  }
  grpc::StatusCode code = grpc::StatusCode::OK;
  for (int i = 0; i < 500 && code != grpc::StatusCode::RESOURCE_EXHAUSTED; ++i) {
    code = server.Call("ReceiptService/GetPublicKey").status.error_code();
    ::usleep(20'000);
  }
  EXPECT_EQ(code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  enough = true;
  server.engine->BeginDrain();  // ends the polls
  for (std::thread& poll : polls) poll.join();
  for (int i = 0; i < 500 && code != grpc::StatusCode::OK; ++i) {
    code = server.Call("ReceiptService/GetPublicKey").status.error_code();
    ::usleep(20'000);
  }
  EXPECT_EQ(code, grpc::StatusCode::OK);
}

TEST(Limits, CountsAndStringsOfMessages) {
  TestServer server(false);
  v1::FindMissingRequest digests;
  for (int i = 0; i <= 10'000; ++i) digests.add_sha256(Sha256Hex(std::to_string(i)));
  EXPECT_EQ(server.Call("BlobService/FindMissing", digests.SerializeAsString()).reason,
            "TOO_MANY_DIGESTS");
  v1::WriteRequest chunk;
  chunk.set_sha256(Sha256Hex("x"));
  chunk.set_size(2 << 20);
  chunk.set_data(std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(server.Call("BlobService/Write", chunk.SerializeAsString()).reason, "CHUNK_TOO_LARGE");
  chunk.clear_data();
  chunk.set_size(uint64_t{1} << 60);
  EXPECT_EQ(server.Call("BlobService/Write", chunk.SerializeAsString()).reason, "BLOB_TOO_LARGE");
  v1::GetLogProofRequest proof;
  for (int i = 0; i < 17; ++i) proof.add_old_sizes(0);
  EXPECT_EQ(server.Call("ReceiptService/GetLogProof", proof.SerializeAsString()).reason,
            "TOO_MANY_PROOFS");
  v1::ListRunsRequest page;
  page.mutable_page()->set_page_size(-1);
  EXPECT_EQ(server.Call("RunService/ListRuns", page.SerializeAsString()).reason, "PAGE_INVALID");
  v1::GetRunRequest name;
  name.set_name("runs/" + std::string(300, 'a'));
  EXPECT_EQ(server.Call("RunService/GetRun", name.SerializeAsString()).reason, "NAME_INVALID");
}

// Nothing that a client names is a path: only digests of 64 hex characters reach the store.
TEST(Limits, NamesOfClientsNeverReachTheFileSystem) {
  TestServer server(false);
  ASSERT_TRUE(WriteFile(server.dir + "/store/secret", "secret").ok());
  const std::string dir = server.dir;
  for (const std::string& path :
       {std::string("../secret"), std::string("../../secret"), dir + "/store/secret",
        std::string("/etc/passwd"), std::string("..%2fsecret"), std::string("a/../../secret"),
        std::string("."), std::string(".."), std::string("x\0y", 3), std::string("signing.key"),
        std::string(62, 'a') + "/.", std::string(64, 'A')}) {
    v1::ReadRequest read;
    read.set_sha256(path);
    EXPECT_FALSE(server.Call("BlobService/Read", read.SerializeAsString()).status.ok()) << path;
    v1::WriteRequest write;
    write.set_sha256(path);
    write.set_size(1);
    write.set_data("x");
    write.set_finish(true);
    EXPECT_EQ(server.Call("BlobService/Write", write.SerializeAsString()).reason, "DIGEST_INVALID")
        << path;
    v1::QueryWriteStatusRequest query;
    query.set_sha256(path);
    EXPECT_EQ(server.Call("BlobService/QueryWriteStatus", query.SerializeAsString()).reason,
              "DIGEST_INVALID")
        << path;
    v1::CreateSuiteRequest suite;
    suite.set_manifest_sha256(path);
    EXPECT_FALSE(server.Call("SuiteService/CreateSuite", suite.SerializeAsString()).status.ok());
    for (const char* kind : {"runs", "suites", "models", "heads", "captures", "reports"}) {
      v1::GetRunRequest get;
      get.set_name(std::string(kind) + "/" + path);
      for (const char* method :
           {"RunService/GetRun", "SuiteService/GetSuite", "ModelService/GetModel",
            "HeadService/GetHead", "CaptureService/GetCapture", "ReportService/GetReport"}) {
        EXPECT_FALSE(server.Call(method, get.SerializeAsString()).status.ok());
      }
    }
  }
  EXPECT_EQ(ReadFile(dir + "/store/secret", 100).value(), "secret");
  EXPECT_FALSE(FileExists(dir + "/secret"));
}

}  // namespace
}  // namespace assay::rpc
