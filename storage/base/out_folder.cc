#include "storage/base/out_folder.h"

#include <unistd.h>

#include <cerrno>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {

absl::Status CheckCanWriteFolder(const std::string& out) {
  if (out.empty()) return InvalidError("OUT_INVALID", "--out is empty; give it a folder");
  std::string place = out;
  while (!IsDirectory(place)) {
    if (FileExists(place)) {
      return InvalidError("OUT_INVALID",
                          place == out ? out + " is a file; give --out a folder"
                                       : out + ": " + place +
                                             " is a file, so no folder can be made below it; give "
                                             "another --out");
    }
    const std::string above = DirName(place);
    if (above == place) break;
    place = above;
  }
  if (access(place.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  const int error = errno;
  const std::string what = place == out ? out : out + " cannot be made, since " + place;
  if (error != EACCES && error != EPERM && error != EROFS) return ErrnoError(error, place);
  return Error(absl::StatusCode::kPermissionDenied, "FILE_DENIED",
               what +
                   (error == EROFS ? " is on a read-only file system"
                                   : " cannot be written to by this user") +
                   "; give another --out, or make the folder writable");
}

MadeFolders::~MadeFolders() {
  for (const std::string& folder : made_) {
    if (rmdir(folder.c_str()) != 0 && errno != ENOENT)
      return;  // it holds results: so do those above it
  }
}

absl::Status MadeFolders::Make(const std::string& path) {
  std::vector<std::string> missing;
  for (std::string place = path; !IsDirectory(place); place = DirName(place)) {
    missing.push_back(place);
    if (DirName(place) == place) break;
  }
  absl::Status status = EnsureDirectory(path);
  made_.insert(made_.begin(), missing.begin(), missing.end());
  return status;
}

}  // namespace assay
