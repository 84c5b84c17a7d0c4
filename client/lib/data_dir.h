// The data directory of an embedded coordinator: where it is, and who may use it.

#ifndef ASSAY_CLIENT_LIB_DATA_DIR_H_
#define ASSAY_CLIENT_LIB_DATA_DIR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace assay {

// `flag` when given, else $ASSAY_DATA, else $XDG_DATA_HOME/assay, else ~/.local/share/assay; as an
// absolute path. DATA_DIR_UNKNOWN when none of these says where.
absl::StatusOr<std::string> ResolveDataDir(const std::string& flag);

// Makes the directory (mode 0700) and holds it for this process. The lock ends with the process.
class DataDirLock {
 public:
  // `command` is told to whoever finds the directory in use. DATA_DIR_IN_USE names process and
  // command of the holder and what to do.
  static absl::StatusOr<std::unique_ptr<DataDirLock>> Acquire(const std::string& dir,
                                                              const std::string& command);
  ~DataDirLock();
  DataDirLock(const DataDirLock&) = delete;
  DataDirLock& operator=(const DataDirLock&) = delete;

 private:
  DataDirLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  const std::string path_;
  const int fd_;
};

// A place for a Unix socket, removed with the object. In `dir` when the path is short enough for
// the kernel (108 bytes), else in a new private folder (mode 0700) under $XDG_RUNTIME_DIR or /tmp.
class SocketPlace {
 public:
  static absl::StatusOr<std::unique_ptr<SocketPlace>> Make(const std::string& dir);
  ~SocketPlace();
  const std::string& path() const { return path_; }

 private:
  SocketPlace(std::string path, std::string folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}
  const std::string path_;
  const std::string folder_;  // "" when the socket lies in the data directory
};

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_DATA_DIR_H_
