// A coordinator on a Unix socket, called by method name with any token.

#ifndef ASSAY_SERVER_RPC_SECURITY_TEST_UTIL_H_
#define ASSAY_SERVER_RPC_SECURITY_TEST_UTIL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "server/auth/tokens.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "storage/base/files.h"

namespace assay::rpc {

struct CallResult {
  grpc::Status status;
  std::string reason;
};

class TestServer {
 public:
  // `tokens`: one for each role, named as the role, and one that is revoked.
  explicit TestServer(bool tokens, ServerOptions options = {}) {
    EXPECT_NE(::mkdtemp(dir.data()), nullptr);
    if (tokens) {
      options.tokens = dir + "/tokens.json";
      for (const Role role : kRoles) {
        const std::string name(RoleName(role));
        token[name] = CreateToken(options.tokens, name, role, 0, 1).value();
      }
      token["revoked"] = CreateToken(options.tokens, "gone", Role::kAdmin, 0, 1).value();
      EXPECT_TRUE(RevokeToken(options.tokens, "gone", 2).ok());
      token["wrong"] = "assay_0123456789abcdef_" + std::string(64, '0');
      token["none"] = "";
      options.audit = dir + "/audit.jsonl";
    }
    EngineOptions engine_options;
    engine_options.data_dir = dir + "/store";
    engine_options.ballast_bytes = 0;
    engine_options.min_free_bytes = 0;
    engine = Engine::Open(engine_options).value();
    options.listen = {"unix:" + dir + "/s"};
    auto started = Server::Start(engine.get(), options);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    channel = grpc::CreateChannel("unix:" + dir + "/s", grpc::InsecureChannelCredentials());
  }
  ~TestServer() {
    engine->BeginDrain();
    server->Shutdown(1000);
    engine->Stop();
    EXPECT_TRUE(RemoveTree(dir).ok());
  }

  // One call of /assay.v1.`method` with one message.
  CallResult Call(const std::string& method, const std::string& message,
                  const std::string& token_text, grpc::ClientContext* context) {
    if (!token_text.empty()) context->AddMetadata("authorization", "Bearer " + token_text);
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    const grpc::Slice slice(message);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    CallResult result;
    const auto call = stub.PrepareUnaryCall(context, "/assay.v1." + method, request, &queue);
    call->StartCall();
    call->Finish(&response, &result.status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    const auto& trailers = context->GetServerTrailingMetadata();
    if (const auto it = trailers.find("assay-reason"); it != trailers.end()) {
      result.reason = std::string(it->second.data(), it->second.size());
    }
    return result;
  }
  CallResult Call(const std::string& method, const std::string& message = "",
                  const std::string& token_text = "") {
    grpc::ClientContext context;
    return Call(method, message, token_text, &context);
  }

  std::string dir = "/tmp/assay_secureXXXXXX";
  std::map<std::string, std::string> token;  // by role
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Server> server;
  std::shared_ptr<grpc::Channel> channel;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_SECURITY_TEST_UTIL_H_
