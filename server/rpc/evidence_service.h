// EvidenceService: results of workers that disagree.

#ifndef ASSAY_SERVER_RPC_EVIDENCE_SERVICE_H_
#define ASSAY_SERVER_RPC_EVIDENCE_SERVICE_H_

#include "assay/v1/evidence.grpc.pb.h"
#include "server/engine/engine.h"

namespace assay::rpc {

class Gate;

class EvidenceServiceImpl final : public v1::EvidenceService::Service {
 public:
  EvidenceServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status ListDisputes(grpc::ServerContext*, const v1::ListDisputesRequest*,
                            v1::ListDisputesResponse*) override;

 private:
  absl::Status DoList(const v1::ListDisputesRequest& request, v1::ListDisputesResponse* out) const;
  Engine* engine_;
  Gate* gate_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_EVIDENCE_SERVICE_H_
