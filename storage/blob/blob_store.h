// Bytes named by their SHA-256. The interface is small so that a decorator (metrics, faults, a
// remote store) is too.
//
// A blob exists only when all its bytes are durable and their digest was checked; nobody ever sees
// another one.

#ifndef ASSAY_STORAGE_BLOB_BLOB_STORE_H_
#define ASSAY_STORAGE_BLOB_BLOB_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// One upload. Not thread-safe. Dropping the object keeps what was written for a later resume.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // Bytes there already; the next Append continues from here. Equals the blob's size when it is
  // complete.
  virtual uint64_t offset() const = 0;
  // BLOB_SIZE beyond the announced size; DISK_LOW, DISK_FULL, FILE_IO.
  virtual absl::Status Append(std::span<const uint8_t> bytes) = 0;
  // Durable when it returns. BLOB_SIZE when bytes are missing (the partial file stays);
  // DIGEST_MISMATCH (it is dropped).
  virtual absl::Status Commit() = 0;
};

class BlobReader {
 public:
  virtual ~BlobReader() = default;
  virtual uint64_t size() const = 0;
  // Fills `out` from `offset`; all of it must lie inside the blob (OFFSET_MISMATCH). Thread-safe.
  virtual absl::Status ReadAt(uint64_t offset, std::span<uint8_t> out) const = 0;
};

struct BlobWriteStatus {
  uint64_t committed_size = 0;  // bytes that need not be sent again
  bool complete = false;
};

struct BlobInfo {
  std::string sha256;
  uint64_t bytes = 0;
  int64_t touched_ms = 0;  // when it was written, or last found by somebody who would send it
};

// Blobs up to this size are digested again when somebody is about to leave them as they are.
inline constexpr uint64_t kBlobRecheckBytes = uint64_t{4} << 20;

// Thread-safe. Every method: DIGEST_INVALID for a name that is not 64 lower-case hex characters.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  virtual bool Has(const std::string& sha256) const = 0;
  // Like Has, but false for a blob of up to kBlobRecheckBytes whose stored bytes have changed: it
  // can be written anew, and whoever has the right bytes should send them.
  virtual bool HasIntact(const std::string& sha256) const = 0;
  // BLOB_MISSING.
  virtual absl::StatusOr<uint64_t> Size(const std::string& sha256) const = 0;
  // BLOB_TOO_LARGE, BLOB_BUSY (another writer of the same blob is alive), DISK_LOW, QUOTA_EXCEEDED.
  virtual absl::StatusOr<std::unique_ptr<BlobWriter>> Write(const std::string& sha256,
                                                            uint64_t size) = 0;
  virtual absl::StatusOr<BlobWriteStatus> WriteStatus(const std::string& sha256) const = 0;
  // BLOB_MISSING.
  virtual absl::StatusOr<std::unique_ptr<BlobReader>> Read(const std::string& sha256) const = 0;
  // A local file with the blob's bytes, for readers that map files. BLOB_MISSING.
  virtual absl::StatusOr<std::string> LocalPath(const std::string& sha256) const = 0;
  // Reads and digests the blob. DATA_LOSS with BLOB_CORRUPT naming it when the bytes changed.
  virtual absl::Status Verify(const std::string& sha256) const = 0;
  // Digests the blob and removes it when its bytes have changed, so that the right ones can be
  // written. True when the blob is not there (any more).
  virtual absl::StatusOr<bool> DropDamaged(const std::string& sha256) = 0;
  // Removes a blob that no row names any more; OK when it is not there.
  virtual absl::Status Remove(const std::string& sha256) = 0;
  // Calls `sink` for every blob, in order of names, until it gives an error.
  virtual absl::Status List(const std::function<absl::Status(const BlobInfo&)>& sink) const = 0;
  // Sets a blob aside, where nobody finds it but a person; its name can be written anew.
  virtual absl::Status Quarantine(const std::string& sha256) = 0;
};

// Stores `bytes`; returns their digest. OK when they are there already.
absl::StatusOr<std::string> PutBlob(BlobStore& store, std::string_view bytes);
// The whole blob, digest checked. BLOB_MISSING, BLOB_TOO_LARGE beyond `max_bytes`, BLOB_CORRUPT.
absl::StatusOr<std::string> GetBlob(const BlobStore& store, const std::string& sha256,
                                    uint64_t max_bytes);

}  // namespace assay

#endif  // ASSAY_STORAGE_BLOB_BLOB_STORE_H_
