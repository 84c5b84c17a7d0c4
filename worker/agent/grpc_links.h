// The agent's two interfaces over gRPC.

#ifndef ASSAY_WORKER_AGENT_GRPC_LINKS_H_
#define ASSAY_WORKER_AGENT_GRPC_LINKS_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "assay/v1/worker.grpc.pb.h"
#include "client/lib/blob_transfer.h"
#include "worker/agent/agent.h"
#include "worker/agent/blob_store_link.h"

namespace assay {

class GrpcCoordinatorLink : public CoordinatorLink {
 public:
  // `server` names the coordinator in messages. The answer may come `slack_ms` after wait_ms.
  GrpcCoordinatorLink(std::shared_ptr<grpc::Channel> channel, std::string server,
                      int64_t slack_ms = 10'000);
  void Arm() override;
  absl::StatusOr<v1::SynchronizeResponse> Synchronize(
      const v1::SynchronizeRequest& request) override;
  void Interrupt() override;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const std::string server_;
  const int64_t slack_ms_;
  std::mutex mutex_;
  std::shared_ptr<grpc::ClientContext> armed_;
};

class GrpcBlobStoreLink : public BlobStoreLink {
 public:
  GrpcBlobStoreLink(std::shared_ptr<grpc::Channel> channel, std::string server)
      : transfer_(std::move(channel), std::move(server)) {}
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& sha256s) override;
  absl::Status Fetch(const std::string& sha256, const std::string& path,
                     const std::function<bool()>& go_on) override;
  absl::Status Push(const std::string& path, const std::string& sha256, uint64_t size,
                    const std::function<bool()>& go_on) override;

 private:
  BlobTransfer transfer_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_GRPC_LINKS_H_
