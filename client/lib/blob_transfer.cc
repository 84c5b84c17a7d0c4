#include "client/lib/blob_transfer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "assay/v1/blob.grpc.pb.h"
#include "client/lib/channel.h"
#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::Status Interruption() {
  return Error(absl::StatusCode::kCancelled, "INTERRUPTED", "the transfer was interrupted");
}

// A descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, fmt::format("cannot write {}", path));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

BlobTransfer::BlobTransfer(std::shared_ptr<grpc::Channel> channel, std::string server,
                           TransferOptions options)
    : channel_(std::move(channel)), server_(std::move(server)), options_(options) {}

int64_t BlobTransfer::StreamTimeoutMs(uint64_t bytes) const {
  return options_.call_timeout_ms +
         static_cast<int64_t>(bytes / options_.slowest_bytes_per_s) * 1000;
}

absl::Status BlobTransfer::Retry(const std::function<absl::Status(bool*)>& once) {
  Backoff backoff(options_.retry_first_ms, options_.retry_max_ms);
  for (int failures = 0;;) {
    bool moved = false;
    const absl::Status status = once(&moved);
    // BLOB_BUSY: another stream delivers the same bytes; OFFSET_MISMATCH: it has moved on.
    const std::string reason = ReasonOf(status);
    const bool retry = IsTransient(status) || reason == "BLOB_BUSY" || reason == "OFFSET_MISMATCH";
    if (status.ok() || !retry) return status;
    if (moved) {
      failures = 0;
      backoff.Reset();
    }
    if (++failures >= options_.attempts) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(backoff.NextMs()));
  }
}

absl::StatusOr<std::vector<std::string>> BlobTransfer::FindMissing(
    const std::vector<std::string>& sha256s) {
  const auto stub = v1::BlobService::NewStub(channel_);
  std::vector<std::string> missing;
  std::set<std::string> seen;
  for (size_t start = 0; start < sha256s.size(); start += options_.digests_per_call) {
    v1::FindMissingRequest request;
    const size_t end = std::min(sha256s.size(), start + options_.digests_per_call);
    for (size_t i = start; i < end; ++i) request.add_sha256(sha256s[i]);
    v1::FindMissingResponse response;
    ASSAY_RETURN_IF_ERROR(Retry([&](bool*) {
      grpc::ClientContext context;
      SetDeadline(&context, options_.call_timeout_ms);
      return FromRpc(stub->FindMissing(&context, request, &response), context, server_);
    }));
    for (const std::string& sha256 : response.missing()) {
      if (seen.insert(sha256).second) missing.push_back(sha256);
    }
  }
  return missing;
}

absl::Status BlobTransfer::UploadFile(const std::string& path, const std::string& sha256,
                                      uint64_t size, const TransferProgress& progress) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return ErrnoError(errno, fmt::format("cannot open {}", path));
  const Source source = [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string> {
    std::string bytes(length, '\0');
    size_t done = 0;
    while (done < length) {
      const ssize_t n =
          pread(file.get(), bytes.data() + done, length - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, fmt::format("cannot read {}", path));
      if (n == 0) {
        return DataLossError("FILE_CHANGED",
                             fmt::format("{} became shorter while it was uploaded; run the command "
                                         "again when nothing writes to it",
                                         path));
      }
      done += static_cast<size_t>(n);
    }
    return bytes;
  };
  return Annotate(Upload(source, sha256, size, progress), path);
}

absl::Status BlobTransfer::UploadBytes(std::string_view bytes, const std::string& sha256) {
  const Source source = [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string> {
    return std::string(bytes.substr(offset, length));
  };
  return Upload(source, sha256, bytes.size(), nullptr);
}

absl::Status BlobTransfer::Upload(const Source& source, const std::string& sha256, uint64_t size,
                                  const TransferProgress& progress) {
  uint64_t committed = 0;
  return Retry(
      [&](bool* moved) { return UploadOnce(source, sha256, size, progress, &committed, moved); });
}

absl::Status BlobTransfer::UploadOnce(const Source& source, const std::string& sha256,
                                      uint64_t size, const TransferProgress& progress,
                                      uint64_t* committed, bool* moved) {
  const auto stub = v1::BlobService::NewStub(channel_);
  {
    v1::QueryWriteStatusRequest request;
    request.set_sha256(sha256);
    v1::QueryWriteStatusResponse response;
    grpc::ClientContext context;
    SetDeadline(&context, options_.call_timeout_ms);
    ASSAY_RETURN_IF_ERROR(
        FromRpc(stub->QueryWriteStatus(&context, request, &response), context, server_));
    if (response.complete()) return absl::OkStatus();
    *moved = response.committed_size() > *committed;
    *committed = std::min(response.committed_size(), size);
  }
  grpc::ClientContext context;
  SetDeadline(&context, StreamTimeoutMs(size - *committed));
  v1::WriteResponse response;
  const auto stream = stub->Write(&context, &response);
  uint64_t offset = *committed;
  absl::Status local;  // an error on this side
  v1::WriteRequest request;
  request.set_sha256(sha256);
  request.set_size(size);
  do {
    const uint64_t length = std::min(options_.chunk_bytes, size - offset);
    absl::StatusOr<std::string> bytes = source(offset, length);
    if (!bytes.ok()) {
      local = bytes.status();
      break;
    }
    request.set_offset(offset);
    request.set_data(*std::move(bytes));
    request.set_finish(offset + length == size);
    if (!stream->Write(request)) break;  // the server has said its last word already
    request.clear_sha256();
    offset += length;
    if (progress && !progress(offset, size)) {
      local = Interruption();
      break;
    }
  } while (offset < size);
  if (!local.ok()) context.TryCancel();
  stream->WritesDone();
  const absl::Status remote = FromRpc(stream->Finish(), context, server_);
  return local.ok() ? remote : local;
}

absl::Status BlobTransfer::ReceiveOnce(const std::string& sha256, const Sink& sink,
                                       const TransferProgress& progress, uint64_t* offset,
                                       bool* complete) {
  const auto stub = v1::BlobService::NewStub(channel_);
  v1::ReadRequest request;
  request.set_sha256(sha256);
  request.set_offset(*offset);
  grpc::ClientContext context;
  SetDeadline(&context, StreamTimeoutMs(uint64_t{64} << 30));
  const auto stream = stub->Read(&context, request);
  absl::Status local;
  v1::ReadResponse response;
  uint64_t size = 0;
  bool any = false;
  while (stream->Read(&response)) {
    any = true;
    size = response.size();
    if (response.offset() != *offset || response.data().size() > size - std::min(size, *offset)) {
      local = DataLossError("DOWNLOAD_CORRUPT",
                            fmt::format("{} sent bytes of blob {} out of order", server_, sha256));
      break;
    }
    local = sink(*offset, response.data(), size);
    if (!local.ok()) break;
    *offset += response.data().size();
    if (progress && !progress(*offset, size)) {
      local = Interruption();
      break;
    }
  }
  if (!local.ok()) context.TryCancel();
  const absl::Status remote = FromRpc(stream->Finish(), context, server_);
  if (!local.ok()) return local;
  ASSAY_RETURN_IF_ERROR(remote);
  if (any && *offset < size) {
    return UnavailableError("SERVER_UNREACHABLE",
                            fmt::format("{} ended blob {} early", server_, sha256));
  }
  *complete = true;
  return absl::OkStatus();
}

absl::Status BlobTransfer::Receive(const std::string& sha256, const Sink& sink,
                                   const TransferProgress& progress) {
  Sha256 hash;
  const Sink hashing = [&](uint64_t offset, std::string_view bytes, uint64_t size) {
    hash.Update(bytes);
    return sink(offset, bytes, size);
  };
  uint64_t offset = 0;
  bool complete = false;
  ASSAY_RETURN_IF_ERROR(Retry([&](bool* moved) {
    const uint64_t before = offset;
    const absl::Status status = ReceiveOnce(sha256, hashing, progress, &offset, &complete);
    *moved = offset > before;
    return status;
  }));
  if (const std::string got = hash.FinishHex(); got != sha256) {
    return DataLossError("DOWNLOAD_CORRUPT",
                         fmt::format("blob {} from {} has digest {}; try again, and check the "
                                     "server's disk if this repeats",
                                     sha256, server_, got));
  }
  return absl::OkStatus();
}

absl::Status BlobTransfer::Download(const std::string& sha256, const std::string& path,
                                    const TransferProgress& progress) {
  const std::string temporary = fmt::format("{}.{}.part", path, getpid());
  absl::Status status;
  {
    const Fd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) return ErrnoError(errno, fmt::format("cannot create {}", temporary));
    const Sink sink = [&](uint64_t, std::string_view bytes, uint64_t) {
      return WriteAll(file.get(), bytes, temporary);
    };
    status = Receive(sha256, sink, progress);
  }
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoError(errno, fmt::format("cannot rename {} to {}", temporary, path));
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::StatusOr<std::string> BlobTransfer::ReadBytes(const std::string& sha256, uint64_t max_bytes) {
  std::string bytes;
  const Sink sink = [&](uint64_t, std::string_view piece, uint64_t size) {
    if (size > max_bytes) {
      return InvalidError("FILE_TOO_LARGE", fmt::format("blob {} has {} bytes; at most {} expected",
                                                        sha256, size, max_bytes));
    }
    bytes.append(piece);
    return absl::OkStatus();
  };
  ASSAY_RETURN_IF_ERROR(Receive(sha256, sink, nullptr));
  return bytes;
}

}  // namespace assay
