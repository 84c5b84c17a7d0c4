#include "client/lib/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr char kLockName[] = "client.lock";
constexpr char kSocketName[] = "assayd.sock";
constexpr uint64_t kLockBytesMax = 1 << 16;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool FitsSocketAddress(const std::string& path) {
  return path.size() < sizeof(sockaddr_un{}.sun_path) - 1;
}

}  // namespace

absl::StatusOr<std::string> ResolveDataDir(const std::string& flag) {
  std::string dir = flag;
  if (dir.empty()) dir = Environment("ASSAY_DATA");
  if (dir.empty() && !Environment("XDG_DATA_HOME").empty()) {
    dir = JoinPath(Environment("XDG_DATA_HOME"), "assay");
  }
  if (dir.empty() && !Environment("HOME").empty()) {
    dir = JoinPath(Environment("HOME"), ".local/share/assay");
  }
  if (dir.empty()) {
    return InvalidError("DATA_DIR_UNKNOWN",
                        "neither --data nor ASSAY_DATA, XDG_DATA_HOME or HOME says where to keep "
                        "captures and reports; give --data DIR");
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(dir, error);
  return error ? dir : absolute.lexically_normal().string();
}

absl::StatusOr<std::unique_ptr<DataDirLock>> DataDirLock::Acquire(const std::string& dir,
                                                                  const std::string& command) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(dir, 0700));
  const std::string path = JoinPath(dir, kLockName);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoError(errno, fmt::format("cannot open {}", path));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    std::string holder = "another process";
    absl::StatusOr<Json> json = ReadJsonFile(path, kLockBytesMax);
    if (json.ok() && json->is_object() && json->contains("pid")) {
      holder = fmt::format("process {} ({}, since {})", (*json)["pid"].dump(),
                           json->value("command", "?"), json->value("since", "?"));
    }
    return PreconditionError(
        "DATA_DIR_IN_USE",
        fmt::format("the data directory {} is in use by {}; wait until it ends, stop it, or give "
                    "this command another --data DIR",
                    dir, holder));
  }
  Json owner;
  owner["pid"] = getpid();
  owner["command"] = command;
  owner["since"] = FormatUtc(Clock::Real()->UnixMillis());
  const std::string text = owner.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    close(fd);
    return ErrnoError(error, fmt::format("cannot write {}", path));
  }
  return std::unique_ptr<DataDirLock>(new DataDirLock(path, fd));
}

DataDirLock::~DataDirLock() { close(fd_); }

absl::StatusOr<std::unique_ptr<SocketPlace>> SocketPlace::Make(const std::string& dir) {
  std::string path = JoinPath(dir, kSocketName);
  if (FitsSocketAddress(path)) {
    unlink(path.c_str());  // left over by a killed process; the directory is locked by us
    return std::unique_ptr<SocketPlace>(new SocketPlace(path, ""));
  }
  std::string base = Environment("XDG_RUNTIME_DIR");
  if (base.empty() || !FitsSocketAddress(JoinPath(base, "assay-XXXXXX/assayd.sock")) ||
      access(base.c_str(), W_OK) != 0) {
    base = "/tmp";
  }
  std::string folder = JoinPath(base, "assay-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return ErrnoError(errno, fmt::format("cannot make a folder in {}", base));
  }
  return std::unique_ptr<SocketPlace>(new SocketPlace(JoinPath(folder, kSocketName), folder));
}

SocketPlace::~SocketPlace() {
  unlink(path_.c_str());
  if (!folder_.empty()) rmdir(folder_.c_str());
}

}  // namespace assay
