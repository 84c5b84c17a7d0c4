// Keeps the disk from filling: writes stop at a watermark, and a ballast file can be given up when
// it was reached anyway.
//
// Debian's RocksDB aborts the process when its log meets a full disk, so writes must stop well
// before.

#ifndef ASSAY_STORAGE_BLOB_DISK_GUARD_H_
#define ASSAY_STORAGE_BLOB_DISK_GUARD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

struct DiskGuardOptions {
  std::string dir;
  uint64_t min_free_bytes =
      uint64_t{512} << 20;  // below this (with what is about to be written) writes are refused
  uint64_t ballast_bytes = uint64_t{64} << 20;  // 0: none
  std::function<absl::StatusOr<uint64_t>(const std::string&)>
      free_bytes;  // null: the file system's; for tests
};

// Thread-safe.
class DiskGuard {
 public:
  // Makes the ballast file when there is room for it; never an error when there is not.
  static absl::StatusOr<std::unique_ptr<DiskGuard>> Open(DiskGuardOptions options);

  // DISK_LOW, naming folder and figures, when fewer than min_free_bytes would be left after writing
  // `bytes`.
  absl::Status CheckRoom(uint64_t bytes) const;
  // Looks at the disk: gives the ballast up below a quarter of min_free_bytes, makes it again when
  // there is room for it twice. Call from time to time.
  void Tend();
  bool low() const { return low_; }
  bool has_ballast() const;

 private:
  explicit DiskGuard(DiskGuardOptions options) : options_(std::move(options)) {}
  absl::StatusOr<uint64_t> Free() const;
  void MakeBallast();

  DiskGuardOptions options_;
  std::atomic<bool> low_{false};
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BLOB_DISK_GUARD_H_
