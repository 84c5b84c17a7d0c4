#include "worker/agent/grpc_links.h"

#include <chrono>

#include "client/lib/channel.h"

namespace assay {
namespace {

constexpr std::chrono::milliseconds kConnectWait(250);

}  // namespace

GrpcCoordinatorLink::GrpcCoordinatorLink(std::shared_ptr<grpc::Channel> channel, std::string server,
                                         int64_t slack_ms)
    : channel_(std::move(channel)),
      stub_(v1::WorkerService::NewStub(channel_)),
      server_(std::move(server)),
      slack_ms_(slack_ms) {}

void GrpcCoordinatorLink::Arm() {
  const std::lock_guard lock(mutex_);
  armed_ = std::make_shared<grpc::ClientContext>();
}

void GrpcCoordinatorLink::Interrupt() {
  std::shared_ptr<grpc::ClientContext> context;
  {
    const std::lock_guard lock(mutex_);
    context = armed_;
  }
  if (context != nullptr) context->TryCancel();
}

absl::StatusOr<v1::SynchronizeResponse> GrpcCoordinatorLink::Synchronize(
    const v1::SynchronizeRequest& request) {
  std::shared_ptr<grpc::ClientContext> context;
  {
    const std::lock_guard lock(mutex_);
    if (armed_ == nullptr) armed_ = std::make_shared<grpc::ClientContext>();
    context = armed_;
  }
  SetDeadline(context.get(), request.wait_ms() + slack_ms_);
  v1::SynchronizeResponse response;
  const grpc::Status status = stub_->Synchronize(context.get(), request, &response);
  {
    const std::lock_guard lock(mutex_);
    armed_ = nullptr;  // a late Interrupt must not touch a finished call
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    // While nobody waits on a channel, gRPC reads from its connections only every five seconds: a
    // TLS handshake would outlast the attempt to connect, again and again.
    channel_->WaitForConnected(std::chrono::system_clock::now() + kConnectWait);
  }
  if (absl::Status error = FromRpc(status, *context, server_); !error.ok()) return error;
  return response;
}

absl::StatusOr<std::vector<std::string>> GrpcBlobStoreLink::FindMissing(
    const std::vector<std::string>& sha256s) {
  return transfer_.FindMissing(sha256s);
}

absl::Status GrpcBlobStoreLink::Fetch(const std::string& sha256, const std::string& path,
                                      const std::function<bool()>& go_on) {
  return transfer_.Download(sha256, path, [&](uint64_t, uint64_t) { return go_on(); });
}

absl::Status GrpcBlobStoreLink::Push(const std::string& path, const std::string& sha256,
                                     uint64_t size, const std::function<bool()>& go_on) {
  return transfer_.UploadFile(path, sha256, size, [&](uint64_t, uint64_t) { return go_on(); });
}

}  // namespace assay
