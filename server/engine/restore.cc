#include "server/engine/restore.h"

#include <cerrno>
#include <cstdio>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {

absl::StatusOr<bool> IsRestored(const std::string& data_dir) {
  if (FileExists(JoinPath(data_dir, kBackupUnfinished))) {
    return DataLossError("STORE_DAMAGED", data_dir +
                                              ": a backup that was never finished; use another one "
                                              "or make it again");
  }
  return FileExists(JoinPath(data_dir, kBackupManifest));
}

absl::Status EndRestore(const std::string& data_dir) {
  const std::string from = JoinPath(data_dir, kBackupManifest);
  const std::string to = JoinPath(data_dir, "restored.json");
  if (std::rename(from.c_str(), to.c_str()) != 0) return ErrnoError(errno, "renaming " + from);
  return SyncDirectory(data_dir);
}

}  // namespace assay
