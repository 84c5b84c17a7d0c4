#include "storage/base/sync_trace_test_util.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace assay {
namespace {

SyncTrace* active = nullptr;

}  // namespace

void NoteSyncCall(const std::string& call) {
  if (active != nullptr) active->calls_.push_back(call);
}

SyncTrace::SyncTrace() { active = this; }
SyncTrace::~SyncTrace() { active = nullptr; }

}  // namespace assay

extern "C" int fsync(int fd) {
  std::error_code error;
  assay::NoteSyncCall(
      "sync " +
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string());
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  assay::NoteSyncCall(std::string("rename ") + from + " -> " + to);
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
