#include "storage/blob/disk_guard.h"

#include <fcntl.h>
#include <unistd.h>

#include "storage/base/checked.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {
std::string BallastPath(const std::string& dir) { return JoinPath(dir, "ballast"); }
}  // namespace

absl::StatusOr<std::unique_ptr<DiskGuard>> DiskGuard::Open(DiskGuardOptions options) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(options.dir, 0750));
  std::unique_ptr<DiskGuard> guard(new DiskGuard(std::move(options)));
  guard->Tend();
  return guard;
}

absl::StatusOr<uint64_t> DiskGuard::Free() const {
  return options_.free_bytes ? options_.free_bytes(options_.dir) : FreeBytes(options_.dir);
}

bool DiskGuard::has_ballast() const { return FileExists(BallastPath(options_.dir)); }

absl::Status DiskGuard::CheckRoom(uint64_t bytes) const {
  ASSAY_ASSIGN_OR_RETURN(const uint64_t free, Free());
  const auto needed = CheckedAdd(bytes, options_.min_free_bytes);
  if (needed && free >= *needed) return absl::OkStatus();
  return ExhaustedError("DISK_LOW", options_.dir + ": " + std::to_string(free) +
                                        " bytes are free, " + std::to_string(bytes) +
                                        " are wanted and " +
                                        std::to_string(options_.min_free_bytes) +
                                        " must stay free; make room and try again");
}

void DiskGuard::Tend() {
  const auto free = Free();
  if (!free.ok()) return;
  low_ = *free < options_.min_free_bytes;
  if (options_.ballast_bytes == 0) return;
  if (has_ballast()) {
    if (*free < options_.min_free_bytes / 4) ::unlink(BallastPath(options_.dir).c_str());
  } else if (*free / 2 >= options_.ballast_bytes &&
             *free - options_.ballast_bytes >= options_.min_free_bytes) {
    MakeBallast();
  }
}

void DiskGuard::MakeBallast() {
  const std::string path = BallastPath(options_.dir);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return;
  const bool good = ::posix_fallocate(fd, 0, static_cast<off_t>(options_.ballast_bytes)) == 0;
  ::close(fd);
  if (!good) ::unlink(path.c_str());
}

}  // namespace assay
