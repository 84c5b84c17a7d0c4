#include "server/rpc/blob_service.h"

#include <set>

#include "server/rpc/gate.h"
#include "server/rpc/status.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::rpc {

grpc::Status BlobServiceImpl::FindMissing(grpc::ServerContext* context,
                                          const v1::FindMissingRequest* request,
                                          v1::FindMissingResponse* response) {
  Call call(gate_, context, "BlobService/FindMissing");
  if (!call.admitted()) return call.refusal();
  if (request->sha256_size() > kDigestsMax) {
    return ToGrpc(InvalidError("TOO_MANY_DIGESTS", "at most 10000 digests in one call"), context);
  }
  std::set<std::string> seen;
  for (const std::string& sha256 : request->sha256()) {
    if (!IsSha256Hex(sha256)) {
      return ToGrpc(InvalidError("DIGEST_INVALID", "a digest is 64 lower-case hex characters"),
                    context);
    }
    if (!engine_->blobs().HasIntact(sha256) && seen.insert(sha256).second)
      response->add_missing(sha256);
  }
  return grpc::Status::OK;
}

absl::Status BlobServiceImpl::DoWrite(grpc::ServerReader<v1::WriteRequest>* reader,
                                      v1::WriteResponse* response, std::string* blob) {
  v1::WriteRequest request;
  if (!reader->Read(&request))
    return InvalidError("BLOB_SIZE", "the stream ended before its first message");
  *blob = request.sha256();
  const uint64_t size = request.size();
  ASSAY_ASSIGN_OR_RETURN(auto writer, engine_->blobs().Write(request.sha256(), size));
  response->set_committed_size(size);
  if (writer->offset() == size && engine_->blobs().HasIntact(*blob)) return absl::OkStatus();
  do {
    if (request.data().size() > kChunkBytes) {
      return InvalidError("CHUNK_TOO_LARGE", "a message holds at most 1 MiB of data");
    }
    if (request.offset() != writer->offset()) {
      return Error(absl::StatusCode::kOutOfRange, "OFFSET_MISMATCH",
                   "the message starts at offset " + std::to_string(request.offset()) +
                       ", the store has " + std::to_string(writer->offset()) +
                       " bytes; ask QueryWriteStatus and go on from there");
    }
    ASSAY_RETURN_IF_ERROR(writer->Append(
        {reinterpret_cast<const uint8_t*>(request.data().data()), request.data().size()}));
    if (request.finish()) return writer->Commit();
  } while (reader->Read(&request));
  return UnavailableError(
      "STREAM_CUT", "the stream ended without finish; ask QueryWriteStatus and go on from there");
}

grpc::Status BlobServiceImpl::Write(grpc::ServerContext* context,
                                    grpc::ServerReader<v1::WriteRequest>* reader,
                                    v1::WriteResponse* response) {
  Call call(gate_, context, "BlobService/Write");
  if (!call.admitted()) return call.refusal();
  std::string blob;
  const absl::Status status = DoWrite(reader, response, &blob);
  return call.Answer(status, blob);
}

grpc::Status BlobServiceImpl::QueryWriteStatus(grpc::ServerContext* context,
                                               const v1::QueryWriteStatusRequest* request,
                                               v1::QueryWriteStatusResponse* response) {
  Call call(gate_, context, "BlobService/QueryWriteStatus");
  if (!call.admitted()) return call.refusal();
  const auto status = engine_->blobs().WriteStatus(request->sha256());
  if (!status.ok()) return ToGrpc(status.status(), context);
  response->set_committed_size(status->committed_size);
  response->set_complete(status->complete);
  return grpc::Status::OK;
}

absl::Status BlobServiceImpl::DoRead(const v1::ReadRequest& request,
                                     grpc::ServerWriter<v1::ReadResponse>* writer) {
  ASSAY_ASSIGN_OR_RETURN(const auto reader, engine_->blobs().Read(request.sha256()));
  if (request.offset() > reader->size()) {
    return Error(absl::StatusCode::kOutOfRange, "OFFSET_MISMATCH",
                 "the blob has only " + std::to_string(reader->size()) + " bytes");
  }
  const uint64_t left = reader->size() - request.offset();
  const uint64_t end =
      request.offset() + (request.limit() == 0 ? left : std::min(left, request.limit()));
  v1::ReadResponse response;
  response.set_size(reader->size());
  uint64_t at = request.offset();
  do {
    std::string* data = response.mutable_data();
    data->resize(std::min<uint64_t>(kChunkBytes, end - at));
    ASSAY_RETURN_IF_ERROR(
        reader->ReadAt(at, {reinterpret_cast<uint8_t*>(data->data()), data->size()}));
    response.set_offset(at);
    at += data->size();
    if (!writer->Write(response))
      return Error(absl::StatusCode::kCancelled, "CALL_CANCELLED", "the reader went away");
  } while (at < end);
  return absl::OkStatus();
}

grpc::Status BlobServiceImpl::Read(grpc::ServerContext* context, const v1::ReadRequest* request,
                                   grpc::ServerWriter<v1::ReadResponse>* writer) {
  Call call(gate_, context, "BlobService/Read");
  if (!call.admitted()) return call.refusal();
  return ToGrpc(DoRead(*request, writer), context, request->sha256());
}

}  // namespace assay::rpc
