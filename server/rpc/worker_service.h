// The worker plane, and the list of workers for people.

#ifndef ASSAY_SERVER_RPC_WORKER_SERVICE_H_
#define ASSAY_SERVER_RPC_WORKER_SERVICE_H_

#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "assay/v1/worker.grpc.pb.h"
#include "server/engine/engine.h"

namespace assay::rpc {

class Gate;

inline constexpr int kProtocolVersion = 1;

class WorkerServiceImpl final : public v1::WorkerService::Service {
 public:
  WorkerServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status Synchronize(grpc::ServerContext*, const v1::SynchronizeRequest*,
                           v1::SynchronizeResponse*) override;

 private:
  // A worker's name belongs to the principal that used it first: another one must not take over its
  // leases. WORKER_OF_ANOTHER.
  absl::Status CheckOwner(const std::string& worker, const std::string& principal);

  Engine* engine_;
  Gate* gate_;
  std::mutex mutex_;
  std::map<std::string, std::string> owners_;  // worker id -> principal; as many as workers_max
};

class WorkerAdminServiceImpl final : public v1::WorkerAdminService::Service {
 public:
  WorkerAdminServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse*) override;

 private:
  Engine* engine_;
  Gate* gate_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_WORKER_SERVICE_H_
