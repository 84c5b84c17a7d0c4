// The folder that a command writes its results to: asked for before the work, taken back after a
// failure.

#ifndef ASSAY_STORAGE_BASE_OUT_FOLDER_H_
#define ASSAY_STORAGE_BASE_OUT_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace assay {

// OK when `out` is a folder in which this process may write, or could be made one; nothing is
// created. OUT_INVALID when it or a folder above it is a file, FILE_DENIED when the system forbids
// it; both say what to give instead.
absl::Status CheckCanWriteFolder(const std::string& out);

// Folders made for results. Those that are still empty at the end are removed again, so that a
// command that failed leaves nothing behind.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  // EnsureDirectory, remembering what was missing.
  absl::Status Make(const std::string& path);

 private:
  std::vector<std::string> made_;  // innermost first
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_OUT_FOLDER_H_
