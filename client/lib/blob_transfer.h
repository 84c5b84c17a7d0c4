// Blobs to and from a coordinator: uploads that resume, downloads that are verified.

#ifndef ASSAY_CLIENT_LIB_BLOB_TRANSFER_H_
#define ASSAY_CLIENT_LIB_BLOB_TRANSFER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

struct TransferOptions {
  uint64_t chunk_bytes = 1 << 20;  // of one message
  int attempts = 6;                // in a row without a byte moved
  int64_t retry_first_ms = 100;    // then doubled
  int64_t retry_max_ms = 3000;
  int64_t call_timeout_ms = 30'000;  // of unary calls; a stream gets this plus its size at
  uint64_t slowest_bytes_per_s = 1 << 18;
  size_t digests_per_call = 10'000;
};

// Bytes done of all; false ends the transfer with CANCELLED (reason INTERRUPTED).
using TransferProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Thread-safe; calls block. Transient errors are retried inside, others are returned as they are.
class BlobTransfer {
 public:
  // `server` names the coordinator in messages.
  BlobTransfer(std::shared_ptr<grpc::Channel> channel, std::string server,
               TransferOptions options = {});

  // Those of `sha256s` (any number) that the store does not hold, each once, in order.
  absl::StatusOr<std::vector<std::string>> FindMissing(const std::vector<std::string>& sha256s);

  // After success the store holds `size` bytes with digest `sha256`, read from `path`. Nothing is
  // sent when it holds them already; a broken upload goes on where it stopped, also one of an
  // earlier process. DIGEST_MISMATCH from the server: the file has changed.
  absl::Status UploadFile(const std::string& path, const std::string& sha256, uint64_t size,
                          const TransferProgress& progress = nullptr);
  absl::Status UploadBytes(std::string_view bytes, const std::string& sha256);

  // Writes the blob to `path` (by a temporary file beside it; whole and verified or not at all).
  // DOWNLOAD_CORRUPT when the bytes are not those named; BLOB_MISSING.
  absl::Status Download(const std::string& sha256, const std::string& path,
                        const TransferProgress& progress = nullptr);
  // The blob in memory, verified; FILE_TOO_LARGE beyond `max_bytes`.
  absl::StatusOr<std::string> ReadBytes(const std::string& sha256, uint64_t max_bytes);

 private:
  using Source = std::function<absl::StatusOr<std::string>(uint64_t offset, uint64_t length)>;
  // Takes the bytes at `offset`; `size` is that of the whole blob. Offsets only grow.
  using Sink = std::function<absl::Status(uint64_t offset, std::string_view bytes, uint64_t size)>;

  absl::Status Upload(const Source& source, const std::string& sha256, uint64_t size,
                      const TransferProgress& progress);
  // One stream from the committed size on. `*moved`: the server has more than before.
  absl::Status UploadOnce(const Source& source, const std::string& sha256, uint64_t size,
                          const TransferProgress& progress, uint64_t* committed, bool* moved);
  absl::Status Receive(const std::string& sha256, const Sink& sink,
                       const TransferProgress& progress);
  absl::Status ReceiveOnce(const std::string& sha256, const Sink& sink,
                           const TransferProgress& progress, uint64_t* offset, bool* complete);
  int64_t StreamTimeoutMs(uint64_t bytes) const;
  // Runs `once` until it succeeds, fails for good, or fails options_.attempts times in a row with
  // *moved false.
  absl::Status Retry(const std::function<absl::Status(bool* moved)>& once);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string server_;
  const TransferOptions options_;
};

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_BLOB_TRANSFER_H_
