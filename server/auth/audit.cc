#include "server/auth/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace assay {

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  std::unique_ptr<AuditLog> log(new AuditLog(path));
  if (!log->Reopen()) return ErrnoError(errno, "opening the audit log " + path);
  return log;
}

AuditLog::~AuditLog() {
  if (fd_ >= 0) ::close(fd_);
}

// Opens the file unless the one that is open still has its name.
bool AuditLog::Reopen() {
  struct stat info {};
  if (fd_ >= 0 && ::stat(path_.c_str(), &info) == 0 && info.st_ino == inode_) return true;
  const int fd =
      ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  if (::fstat(fd_, &info) == 0) inode_ = info.st_ino;
  return true;
}

void AuditLog::Write(Json fields) {
  fields["time"] = FormatUtc(Clock::Real()->UnixMillis());
  std::string line = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (line.size() >= kAuditLineMax) {
    fields["resource"] = "(too long)";
    line = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  line += '\n';
  const std::lock_guard lock(mutex_);
  const bool written =
      Reopen() && ::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (written) return;
  if (lost_++ == 0) {
    std::fprintf(stderr,
                 "{\"level\":\"error\",\"message\":\"a line of the audit log %s is lost: "
                 "errno %d\"}\n",
                 path_.c_str(), errno);
  }
}

uint64_t AuditLog::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace assay
