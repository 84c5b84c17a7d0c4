// The worker plane, and the list of workers for people.

#ifndef ASSAY_SERVER_RPC_WORKER_SERVICE_H_
#define ASSAY_SERVER_RPC_WORKER_SERVICE_H_

#include "assay/v1/worker.grpc.pb.h"
#include "server/engine/engine.h"

namespace assay::rpc {

inline constexpr int kProtocolVersion = 1;

class WorkerServiceImpl final : public v1::WorkerService::Service {
 public:
  explicit WorkerServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status Synchronize(grpc::ServerContext*, const v1::SynchronizeRequest*,
                           v1::SynchronizeResponse*) override;

 private:
  Engine* engine_;
};

class WorkerAdminServiceImpl final : public v1::WorkerAdminService::Service {
 public:
  explicit WorkerAdminServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse*) override;

 private:
  Engine* engine_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_WORKER_SERVICE_H_
