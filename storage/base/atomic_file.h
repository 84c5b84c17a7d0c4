// A file written in pieces that appears whole or not at all.

#ifndef ASSAY_STORAGE_BASE_ATOMIC_FILE_H_
#define ASSAY_STORAGE_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// Writes to a temporary file beside `path`; Commit makes it durable and renames it. Without Commit
// the temporary file is removed and an older `path` stays. Not thread-safe. Errors name the file;
// DISK_FULL as ErrnoError gives it.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path,
                                                            unsigned mode = 0644);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::string_view bytes);
  absl::Status Append(std::span<const uint8_t> bytes);
  // fsync, rename, fsync of the folder. Kill points as WriteFileAtomic.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temp, int fd)
      : path_(std::move(path)), temp_(std::move(temp)), fd_(fd) {}
  const std::string path_;
  const std::string temp_;
  int fd_;  // -1 once closed
  bool committed_ = false;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_ATOMIC_FILE_H_
