#include "storage/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/open_regular.h"
#include "storage/base/status.h"
#include "storage/base/temporary_file.h"

namespace assay {
namespace {

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "writing " + path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteTemporary(const std::string& temp, std::string_view bytes, unsigned mode,
                            bool sync) {
  const int fd = open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoError(errno, "creating " + temp);
  absl::Status status = WriteAll(fd, bytes, temp);
  if (status.ok()) AssayKillPoint("file:written");
  if (status.ok() && sync && fsync(fd) != 0) status = ErrnoError(errno, "syncing " + temp);
  if (close(fd) != 0 && status.ok()) status = ErrnoError(errno, "closing " + temp);
  if (status.ok()) AssayKillPoint("file:synced");
  return status;
}

absl::Status Replace(const std::string& path, std::string_view bytes, unsigned mode, bool sync) {
  const std::string temp = TemporaryName(path);
  absl::Status status = WriteTemporary(temp, bytes, mode, sync);
  if (status.ok() && rename(temp.c_str(), path.c_str()) != 0) {
    status = ErrnoError(errno, "renaming " + temp + " to " + path);
  }
  if (!status.ok()) {
    unlink(temp.c_str());
    return status;
  }
  AssayKillPoint("file:renamed");
  return sync ? SyncDirectory(DirName(path)) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const int fd, OpenRegular(path));
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    const int error_number = errno;
    close(fd);
    return ErrnoError(error_number, "examining " + path);
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error_number = errno;
      close(fd);
      return ErrnoError(error_number, "mapping " + path);
    }
  }
  close(fd);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const uint8_t*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<uint8_t*>(data_), size_);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  ASSAY_ASSIGN_OR_RETURN(const int fd, OpenRegular(path));
  const auto too_large = [&] {
    return InvalidError("FILE_TOO_LARGE", path + " is larger than the limit of " +
                                              std::to_string(max_bytes) + " bytes");
  };
  std::string out;
  absl::Status status;
  // Nothing is read of a file that says itself that it is too large; one that grows is found below.
  struct stat info {};
  if (fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) > max_bytes) {
    close(fd);
    return too_large();
  }
  out.reserve(static_cast<size_t>(info.st_size));
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = ErrnoError(errno, "reading " + path);
    if (n <= 0) break;
    out.append(buffer.data(), static_cast<size_t>(n));
    if (out.size() > max_bytes) {
      status = too_large();
      break;
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return out;
}

absl::Status WriteFileAtomic(const std::string& path, std::string_view bytes, unsigned mode) {
  return Replace(path, bytes, mode, /*sync=*/true);
}

absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  return Replace(path, bytes, 0644, /*sync=*/false);
}

absl::Status EnsureDirectory(const std::string& path, unsigned mode) {
  if (path.empty() || IsDirectory(path)) return absl::OkStatus();
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(path), mode));
  if (mkdir(path.c_str(), mode) == 0) return absl::OkStatus();
  if (errno != EEXIST) return ErrnoError(errno, "creating folder " + path);
  if (IsDirectory(path)) return absl::OkStatus();
  return InvalidError("FILE_NOT_FOLDER", path + " exists and is no folder; choose another path");
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, "opening folder " + path);
  absl::Status status;
  if (fsync(fd) != 0) status = ErrnoError(errno, "syncing folder " + path);
  close(fd);
  return status;
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoError(error.value(), "removing " + path);
  return absl::OkStatus();
}

bool FileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::StatusOr<uint64_t> FileSize(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, "examining " + path);
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(path, error), end;
  while (!error && it != end) {
    names.push_back(it->path().filename().string());
    it.increment(error);
  }
  if (error) return ErrnoError(error.value(), "listing " + path);
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  std::string out(folder);
  if (out.back() != '/') out += '/';
  return out += name;
}

std::string BaseName(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string DirName(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(path.substr(0, slash));
}

bool IsSafeRelativePath(std::string_view path) {
  if (path.empty() || path.size() > 4096 || path.front() == '/') return false;
  size_t start = 0;
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size() && (path[i] == '\0' || path[i] == '\\')) return false;
    if (i == path.size() || path[i] == '/') {
      const std::string_view part = path.substr(start, i - start);
      if (part.empty() || part == "." || part == "..") return false;
      start = i + 1;
    }
  }
  return true;
}

absl::StatusOr<uint64_t> FreeBytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0)
    return ErrnoError(errno, "examining the file system of " + path);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace assay
