// CaptureService: captures, their files, and captures delivered by other engines.

#ifndef ASSAY_SERVER_RPC_CAPTURE_SERVICE_H_
#define ASSAY_SERVER_RPC_CAPTURE_SERVICE_H_

#include "assay/v1/capture.grpc.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/upload_stream.h"

namespace assay::rpc {

class CaptureServiceImpl final
    : public v1::CaptureService::WithCallbackMethod_Ingest<v1::CaptureService::Service> {
 public:
  CaptureServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status GetCapture(grpc::ServerContext*, const v1::GetCaptureRequest*,
                          v1::Capture*) override;
  grpc::Status ListCaptures(grpc::ServerContext*, const v1::ListCapturesRequest*,
                            v1::ListCapturesResponse*) override;
  grpc::Status ListCaptureFiles(grpc::ServerContext*, const v1::ListCaptureFilesRequest*,
                                v1::ListCaptureFilesResponse*) override;
  grpc::Status PruneCaptures(grpc::ServerContext*, const v1::PruneCapturesRequest*,
                             v1::PruneCapturesResponse*) override;
  grpc::ServerReadReactor<v1::IngestRequest>* Ingest(grpc::CallbackServerContext*,
                                                     v1::Capture*) override;

 private:
  absl::StatusOr<v1::Capture> DoIngest(const std::string& principal,
                                       UploadStream<v1::IngestRequest>* stream);
  absl::Status DoPrune(const std::string& principal, const v1::PruneCapturesRequest& request,
                       v1::PruneCapturesResponse* out);
  Engine* engine_;
  Gate* gate_;
  UploadThreads threads_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_CAPTURE_SERVICE_H_
