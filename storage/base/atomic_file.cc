#include "storage/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/status.h"

namespace assay {

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path,
                                                               unsigned mode) {
  static std::atomic<uint64_t> serial{0};
  std::string temp = path + ".part." + std::to_string(getpid()) + "." + std::to_string(serial++);
  const int fd = open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoError(errno, "creating " + temp);
  return std::unique_ptr<AtomicFile>(new AtomicFile(path, std::move(temp), fd));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_) unlink(temp_.c_str());
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "writing " + temp_);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Append(std::span<const uint8_t> bytes) {
  return Append(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::Status AtomicFile::Commit() {
  AssayKillPoint("file:written");
  if (fsync(fd_) != 0) return ErrnoError(errno, "syncing " + temp_);
  const int closed = close(fd_);
  fd_ = -1;
  if (closed != 0) return ErrnoError(errno, "closing " + temp_);
  AssayKillPoint("file:synced");
  if (rename(temp_.c_str(), path_.c_str()) != 0)
    return ErrnoError(errno, "renaming " + temp_ + " to " + path_);
  committed_ = true;
  AssayKillPoint("file:renamed");
  return SyncDirectory(DirName(path_));
}

}  // namespace assay
