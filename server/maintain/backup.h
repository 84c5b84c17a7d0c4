// assayd backup: a copy of a data folder, taken while the coordinator works.
//
// The copy is a data folder itself: restoring is starting a coordinator with a copy of it.

#ifndef ASSAY_SERVER_MAINTAIN_BACKUP_H_
#define ASSAY_SERVER_MAINTAIN_BACKUP_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/blob/file_blob_store.h"
#include "storage/db/catalogue.h"

namespace assay {

struct BackupSource {
  const Catalogue& catalogue;
  const FileBlobStore& blobs;
  std::string data_dir;
};

struct BackupResult {
  uint64_t batches = 0, log_size = 0, blobs = 0, bytes = 0;
  uint64_t damaged =
      0;  // blobs left out because their bytes have changed; none is a sealed document
  std::string ToText(const std::string& dest) const;
};

// Catalogue (a checkpoint), anchor, keys and every blob that something names, each digested while
// it is copied. `dest` must not exist or be empty; until the last byte is durable it holds the file
// backup-unfinished, with which no coordinator starts. Nothing may remove blobs meanwhile
// (Engine::maintenance). BACKUP_EXISTS, BLOB_CORRUPT for a sealed document, DISK_FULL, FILE_*.
// Kill points "backup:checkpoint", "backup:blob", "backup:written".
absl::StatusOr<BackupResult> Backup(const BackupSource& source, const std::string& dest);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_BACKUP_H_
