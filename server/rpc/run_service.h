// RunService: creation, lists, cancelling and the event stream.

#ifndef ASSAY_SERVER_RPC_RUN_SERVICE_H_
#define ASSAY_SERVER_RPC_RUN_SERVICE_H_

#include <atomic>

#include "assay/v1/run.grpc.pb.h"
#include "server/engine/engine.h"

namespace assay::rpc {

class Call;
class Gate;

class RunServiceImpl final : public v1::RunService::Service {
 public:
  // `watchers_max`: streams of WatchRun at a time; more are refused with TOO_MANY_WATCHERS.
  RunServiceImpl(Engine* engine, Gate* gate, int watchers_max)
      : engine_(engine), gate_(gate), watchers_max_(watchers_max) {}
  grpc::Status CreateRun(grpc::ServerContext*, const v1::CreateRunRequest*, v1::Run*) override;
  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest*, v1::Run*) override;
  grpc::Status ListRuns(grpc::ServerContext*, const v1::ListRunsRequest*,
                        v1::ListRunsResponse*) override;
  grpc::Status CancelRun(grpc::ServerContext*, const v1::CancelRunRequest*, v1::Run*) override;
  grpc::Status WatchRun(grpc::ServerContext*, const v1::WatchRunRequest*,
                        grpc::ServerWriter<v1::RunEvent>*) override;
  grpc::Status ListUnits(grpc::ServerContext*, const v1::ListUnitsRequest*,
                         v1::ListUnitsResponse*) override;

 private:
  absl::StatusOr<v1::Run> DoCreate(const std::string& principal,
                                   const v1::CreateRunRequest& request);
  absl::StatusOr<v1::Run> DoCancel(const Call& call, const std::string& name);
  absl::StatusOr<v1::Run> Find(const std::string& id) const;
  absl::Status DoWatch(grpc::ServerContext* context, const v1::WatchRunRequest& request,
                       grpc::ServerWriter<v1::RunEvent>* writer);
  Engine* engine_;
  Gate* gate_;
  const int watchers_max_;
  std::atomic<int> watchers_{0};
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_RUN_SERVICE_H_
