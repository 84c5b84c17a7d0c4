// A data folder that began as a backup.

#ifndef ASSAY_SERVER_ENGINE_RESTORE_H_
#define ASSAY_SERVER_ENGINE_RESTORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// Made before a backup's first file and removed after its last.
inline constexpr const char* kBackupUnfinished = "backup-unfinished";
// What the backup holds. At the first start it becomes restored.json.
inline constexpr const char* kBackupManifest = "backup.json";
// Epochs that the original may have given out since.
inline constexpr uint64_t kRestoredEpochs = 1'000'000;

// True for a backup that was never started. STORE_DAMAGED for an unfinished one.
absl::StatusOr<bool> IsRestored(const std::string& data_dir);
// After the start has been committed.
absl::Status EndRestore(const std::string& data_dir);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_RESTORE_H_
