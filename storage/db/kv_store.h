// What the catalogue wants of a key-value store: a few tables of ordered keys, atomic durable
// batches. RocksDB here; a model with a faulty disk in tests/sim.

#ifndef ASSAY_STORAGE_DB_KV_STORE_H_
#define ASSAY_STORAGE_DB_KV_STORE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/status.h"

namespace assay {

struct KvPut {
  size_t table = 0;
  std::string key, value;
  bool remove = false;  // the key goes; `value` is empty
};

// One writer; readers may run beside it.
class KvStore {
 public:
  virtual ~KvStore() = default;
  // All puts or none, a later one of the same key wins; durable when it returns OK. After an error
  // the object may not be written any more: what is there is known only after opening again.
  virtual absl::Status Write(const std::vector<KvPut>& puts) = 0;
  // Nothing when there is no such key.
  virtual absl::StatusOr<std::optional<std::string>> Get(size_t table,
                                                         std::string_view key) const = 0;
  // Calls `sink` for every key from `first` to before `end` ("": no end), in order of bytes, until
  // it gives an error, which is the answer, or false.
  using Sink = std::function<absl::StatusOr<bool>(std::string_view key, std::string_view value)>;
  virtual absl::Status Scan(size_t table, std::string_view first, std::string_view end,
                            const Sink& sink) const = 0;
  // A consistent copy of everything in the folder `dest`, which must not exist.
  virtual absl::Status Checkpoint(const std::string& dest) const {
    return UnavailableError("STORE_FAILED", "this store makes no copies: " + dest);
  }
  // Empties a table, also one that cannot be read.
  virtual absl::Status MakeAnew(size_t table) {
    return UnavailableError("STORE_FAILED", "cannot empty table " + std::to_string(table));
  }
};

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_KV_STORE_H_
