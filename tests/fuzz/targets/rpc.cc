// Every method of the coordinator, over a Unix socket, with messages that no client would send.
//
// The input is text, one message a line: "RunService.GetRun {"name":"runs/1"}", the message in
// Protobuf's JSON form; what is no such message is sent as the bytes it is. A line that starts with
// '+' is one more message of the stream before it. Methods and messages are found by reflection, so
// that a new method is covered without a change here.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "tests/fuzz/fuzz.h"

namespace assay {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;

constexpr int kInputsPerWorld =
    200;  // a new coordinator after so many, or its state grows for ever
constexpr size_t kLinesMax = 24;
constexpr int kAnswersMax = 8;  // of a stream that the server does not end
constexpr auto kDeadline = std::chrono::seconds(5);

// A coordinator and a channel to it.
class World {
 public:
  World() {
    const std::string dir = JoinPath(fuzz::ScratchDir(), "world");
    RemoveTree(dir).IgnoreError();
    EngineOptions options;
    options.data_dir = dir;
    options.ballast_bytes = 0;
    options.min_free_bytes = 0;
    options.max_blob_bytes = 1 << 20;
    options.core.build_id = "fuzz";
    options.fatal = [](const absl::Status& status) {
      fuzz::Require(false, MessageOf(status).c_str());
      std::abort();
    };
    auto opened = Engine::Open(options);
    fuzz::Require(opened.ok(), "a new store opens");
    engine_ = *std::move(opened);
    rpc::ServerOptions listen;
    listen.listen = {"unix:" + fuzz::ScratchDir() + "/s"};
    auto started = rpc::Server::Start(engine_.get(), listen);
    fuzz::Require(started.ok(), "a server starts");
    server_ = *std::move(started);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ =
        grpc::CreateCustomChannel(listen.listen[0], grpc::InsecureChannelCredentials(), arguments);
  }
  ~World() {
    engine_->BeginDrain();
    server_->Shutdown(1000);
    engine_->Stop();
  }

  // `sound`: every message can be read as what the method takes.
  void Call(const MethodDescriptor& method, const std::vector<std::string>& messages, bool sound) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(channel_);
    const std::string path = "/" + method.service()->full_name() + "/" + method.name();
    auto call = stub.PrepareCall(&context, path, &queue);
    call->StartCall(nullptr);
    bool ok = Next(&queue);
    for (const std::string& message : messages) {
      if (!ok) break;
      const grpc::Slice slice(message);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      ok = Next(&queue);
    }
    if (ok) {
      call->WritesDone(nullptr);
      ok = Next(&queue);
    }
    int answers = 0;
    for (grpc::ByteBuffer answer; ok && answers < kAnswersMax; ++answers) {
      call->Read(&answer, nullptr);
      ok = Next(&queue);
      if (method.server_streaming() && answers > 0) context.TryCancel();
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    Next(&queue);
    fuzz::Require(status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED, "every call ends");
    // gRPC itself answers so to bytes that are no message.
    fuzz::Require(!sound || status.error_code() != grpc::StatusCode::INTERNAL,
                  ("no message is answered as a fault of the coordinator: " + path + ": " +
                   status.error_message())
                      .c_str());
  }

 private:
  static bool Next(grpc::CompletionQueue* queue) {
    void* tag = nullptr;
    bool ok = false;
    return queue->Next(&tag, &ok) && ok;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

struct Closer {
  ~Closer() { delete std::exchange(*world, nullptr); }
  World** world;
};

// "Service.Method"; null for no such method.
const MethodDescriptor* FindMethod(std::string_view name) {
  return DescriptorPool::generated_pool()->FindMethodByName("assay.v1." + std::string(name));
}

// The bytes of a message written as JSON; other text as it is. A long poll is cut short.
std::string Encode(const MethodDescriptor& method, std::string_view text) {
  std::unique_ptr<Message> message(
      MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const google::protobuf::StringPiece json(text.data(), static_cast<ptrdiff_t>(text.size()));
  if (!google::protobuf::util::JsonStringToMessage(json, message.get(), options).ok() &&
      !message->ParsePartialFromArray(text.data(), static_cast<int>(text.size())))
    return std::string(text);
  if (const auto* wait = method.input_type()->FindFieldByName("wait_ms"))
    message->GetReflection()->ClearField(message.get(), wait);
  return message->SerializePartialAsString();
}

bool IsSound(const MethodDescriptor& method, const std::string& bytes) {
  std::unique_ptr<Message> message(
      MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
  return message->ParseFromString(bytes);
}

struct Request {
  const MethodDescriptor* method;
  std::vector<std::string> messages;
};

std::vector<Request> Parse(std::string_view input) {
  std::vector<Request> requests;
  for (size_t lines = 0; lines < kLinesMax && !input.empty(); ++lines) {
    const size_t end = std::min(input.find('\n'), input.size());
    std::string_view line = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    if (!line.empty() && line[0] == '+' && !requests.empty()) {
      requests.back().messages.push_back(Encode(*requests.back().method, line.substr(1)));
      continue;
    }
    const size_t blank = std::min(line.find(' '), line.size());
    const MethodDescriptor* method = FindMethod(line.substr(0, blank));
    if (method == nullptr) continue;
    line.remove_prefix(std::min(blank + 1, line.size()));
    requests.push_back({method, {Encode(*method, line)}});
  }
  return requests;
}

}  // namespace

ASSAY_FUZZ_TARGET(rpc) {
  const std::vector<Request> requests = Parse(input);
  if (requests.empty()) return;
  static_cast<void>(fuzz::ScratchDir());  // made before the coordinator, so gone after it
  static World* world = nullptr;
  static int inputs = 0;
  if (inputs++ % kInputsPerWorld == 0) {
    delete world;
    world = new World;
  }
  for (const Request& request : requests) {
    const bool sound =
        std::all_of(request.messages.begin(), request.messages.end(),
                    [&](const std::string& bytes) { return IsSound(*request.method, bytes); });
    world->Call(*request.method, request.messages, sound);
  }
  // Made last, so that the coordinator ends before what gRPC made for itself during the first
  // calls.
  static const Closer closer{&world};
}

}  // namespace assay
