// BlobService over the engine's blob store.

#ifndef ASSAY_SERVER_RPC_BLOB_SERVICE_H_
#define ASSAY_SERVER_RPC_BLOB_SERVICE_H_

#include "assay/v1/blob.grpc.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/upload_stream.h"

namespace assay::rpc {

inline constexpr size_t kChunkBytes = size_t{1} << 20;
inline constexpr int kDigestsMax = 10'000;

class BlobServiceImpl final
    : public v1::BlobService::WithCallbackMethod_Write<v1::BlobService::Service> {
 public:
  BlobServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status FindMissing(grpc::ServerContext*, const v1::FindMissingRequest*,
                           v1::FindMissingResponse*) override;
  grpc::ServerReadReactor<v1::WriteRequest>* Write(grpc::CallbackServerContext*,
                                                   v1::WriteResponse*) override;
  grpc::Status QueryWriteStatus(grpc::ServerContext*, const v1::QueryWriteStatusRequest*,
                                v1::QueryWriteStatusResponse*) override;
  grpc::Status Read(grpc::ServerContext*, const v1::ReadRequest*,
                    grpc::ServerWriter<v1::ReadResponse>*) override;

 private:
  absl::Status DoWrite(UploadStream<v1::WriteRequest>* stream, v1::WriteResponse* response,
                       std::string* blob);
  absl::Status DoRead(const v1::ReadRequest& request, grpc::ServerWriter<v1::ReadResponse>* writer);
  Engine* engine_;
  Gate* gate_;
  UploadThreads threads_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_BLOB_SERVICE_H_
