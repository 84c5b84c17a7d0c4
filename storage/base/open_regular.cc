#include "storage/base/open_regular.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "storage/base/status.h"

namespace assay {

absl::StatusOr<int> OpenRegular(const std::string& path, int more_flags) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | more_flags);
  if (fd < 0 && errno != ENXIO) return ErrnoError(errno, "opening " + path);  // ENXIO: a socket
  struct stat info {};
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0) close(fd);
  return InvalidError("FILE_NOT_REGULAR", path + " is not a regular file");
}

}  // namespace assay
