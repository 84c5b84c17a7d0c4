// RocksDB as the catalogue's key-value store. Internal to storage/db.

#ifndef ASSAY_STORAGE_DB_ROCKS_STORE_H_
#define ASSAY_STORAGE_DB_ROCKS_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/db/kv_store.h"
#include "storage/db/row.h"

namespace assay {

enum class RocksAccess {
  kReadWrite,           // made when missing; damage inside the log is refused
  kReadOnly,            // nothing on disk changes; damage inside the log is refused
  kReadOnlySkipDamage,  // what can still be read, for telling what is damaged
};

// The store in dir/db, with an exclusive lock on dir/LOCK for the object's life. STORE_IN_USE,
// STORE_DAMAGED, STORE_FAILED, DISK_FULL, FILE_*.
absl::StatusOr<std::unique_ptr<KvStore>> OpenRocks(const std::string& dir, RocksAccess access);

const char* FamilyName(Family family);

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_ROCKS_STORE_H_
