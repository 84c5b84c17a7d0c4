#include "worker/group/offline.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int kLockAttempts = 16;  // each lost to a process that was just leaving

// True when `fd` is still the file at `path`: its last holder may have removed it in between.
bool SameFile(int fd, const std::string& path) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Lock(const std::string& out) {
  const std::string path = JoinPath(out, kWorkFolderName);
  const std::string lock = JoinPath(path, "lock");
  auto made = std::make_unique<MadeFolders>();
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    ASSAY_RETURN_IF_ERROR(made->Make(path));
    const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0) return ErrnoError(errno, lock);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error != EWOULDBLOCK) return ErrnoError(error, lock);
      return PreconditionError("OUT_BUSY", out +
                                               ": another process is working in this folder; "
                                               "wait for it or choose another --out");
    }
    if (SameFile(fd, lock)) {
      return std::unique_ptr<WorkFolder>(new WorkFolder(path, fd, std::move(made)));
    }
    close(fd);
  }
  return PreconditionError("OUT_BUSY", out + ": other processes keep using this folder");
}

WorkFolder::~WorkFolder() {
  RemoveTree(path_).IgnoreError();
  close(fd_);
}

absl::StatusOr<std::unique_ptr<Group>> StartOfflineGroup(const OfflineRanks& ranks, bool capture,
                                                         const std::string& work,
                                                         const OfflineHooks& hooks) {
  GroupOptions options;
  options.size = ranks.tp;
  if (ranks.threads > 0 && ranks.tp > 0) {
    options.threads = std::max(1, ranks.threads / ranks.tp);
  }
  options.work_dir = JoinPath(work, "group");
  options.rank_program = ranks.rank_program;
  options.capture = capture;
  options.interrupted = hooks.interrupted;
  return Group::Start(std::move(options));
}

}  // namespace assay
