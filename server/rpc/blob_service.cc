#include "server/rpc/blob_service.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "server/rpc/gate.h"
#include "server/rpc/status.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::rpc {
namespace {

// Reads one upload's messages, each within the limits of time.
class TimedMessages {
 public:
  using Stream = UploadStream<v1::WriteRequest>;
  TimedMessages(Stream* stream, const Limits& limits) : stream_(stream), limits_(limits) {}

  // `bytes` are still to come.
  void Expect(uint64_t bytes) {
    const uint64_t slowest = std::max<uint64_t>(1, limits_.upload_slowest_bytes_per_s);
    end_ = UploadClock::now() + 2 * Idle() + std::chrono::seconds(bytes / slowest);
  }

  absl::Status Next(v1::WriteRequest* request) {
    const auto idle = UploadClock::now() + Idle();
    switch (stream_->Take(request, std::min(idle, end_))) {
      case Stream::Next::kMessage:
        return UploadClock::now() < end_ ? absl::OkStatus() : TooSlow();
      case Stream::Next::kEnd:
        return UnavailableError(
            "STREAM_CUT",
            "the stream ended without finish; ask QueryWriteStatus and go on from there");
      case Stream::Next::kLate:
        break;
    }
    if (end_ < idle) return TooSlow();
    return UnavailableError("UPLOAD_STALLED", "no message came for " +
                                                  std::to_string(limits_.upload_idle_ms) +
                                                  " ms; ask QueryWriteStatus and go on from there");
  }

 private:
  std::chrono::milliseconds Idle() const {
    return std::chrono::milliseconds(limits_.upload_idle_ms);
  }
  absl::Status TooSlow() const {
    return UnavailableError("UPLOAD_TOO_SLOW",
                            "less than " + std::to_string(limits_.upload_slowest_bytes_per_s) +
                                " bytes came each second; ask QueryWriteStatus and go on from "
                                "there over a faster connection");
  }

  Stream* stream_;
  const Limits& limits_;
  UploadClock::time_point end_ = UploadClock::time_point::max();
};

// Whether a message, not the first of its stream, may follow.
absl::Status CheckMessage(const v1::WriteRequest& request, uint64_t offset, bool first) {
  if (request.data().size() > kChunkBytes) {
    return InvalidError("CHUNK_TOO_LARGE", "a message holds at most 1 MiB of data");
  }
  // Else a stream of nothing would never end.
  if (request.data().empty() && !request.finish() && !first) {
    return InvalidError("CHUNK_EMPTY", "a message after the first holds data or finish");
  }
  if (request.offset() != offset) {
    return Error(absl::StatusCode::kOutOfRange, "OFFSET_MISMATCH",
                 "the message starts at offset " + std::to_string(request.offset()) +
                     ", the store has " + std::to_string(offset) +
                     " bytes; ask QueryWriteStatus and go on from there");
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::Status BlobServiceImpl::DoWrite(UploadStream<v1::WriteRequest>* stream,
                                      v1::WriteResponse* response, std::string* blob) {
  TimedMessages messages(stream, gate_->limits());
  v1::WriteRequest request;
  if (const absl::Status first = messages.Next(&request); !first.ok()) {
    if (ReasonOf(first) != "STREAM_CUT") return first;
    return InvalidError("BLOB_SIZE", "the stream ended before its first message");
  }
  *blob = request.sha256();
  const uint64_t size = request.size();
  ASSAY_ASSIGN_OR_RETURN(auto writer, engine_->blobs().Write(request.sha256(), size));
  response->set_committed_size(size);
  if (writer->offset() == size && engine_->blobs().HasIntact(*blob)) return absl::OkStatus();
  messages.Expect(size - writer->offset());
  for (bool first = true;; first = false) {
    ASSAY_RETURN_IF_ERROR(CheckMessage(request, writer->offset(), first));
    ASSAY_RETURN_IF_ERROR(writer->Append(
        {reinterpret_cast<const uint8_t*>(request.data().data()), request.data().size()}));
    if (request.finish()) return writer->Commit();
    ASSAY_RETURN_IF_ERROR(messages.Next(&request));
  }
}

grpc::ServerReadReactor<v1::WriteRequest>* BlobServiceImpl::Write(
    grpc::CallbackServerContext* context, v1::WriteResponse* response) {
  return ServeUpload<v1::WriteRequest>(
      gate_, &threads_, context, "BlobService/Write",
      [this, response](Call& call, UploadStream<v1::WriteRequest>& stream) {
        std::string blob;
        const absl::Status status = DoWrite(&stream, response, &blob);
        return call.Answer(status, blob);
      });
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
