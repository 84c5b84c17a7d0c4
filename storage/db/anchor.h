// The anchor: how far the catalogue had got when it last said so, kept outside RocksDB.
//
// RocksDB can lose acknowledged writes without an error when its log is damaged; a catalogue that
// is shorter than its anchor has lost something. The file has two fixed slots written in turn
// (pwrite, fdatasync), so that a torn write leaves the other one.

#ifndef ASSAY_STORAGE_DB_ANCHOR_H_
#define ASSAY_STORAGE_DB_ANCHOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

struct AnchorValue {
  uint64_t seq = 0;
  std::string hash_hex;  // of chain link `seq`
};

// The bytes of the anchor: a file here, a model of one in tests/sim.
class AnchorFile {
 public:
  virtual ~AnchorFile() = default;
  virtual absl::StatusOr<std::string> Read() = 0;  // up to two slots; "" when new
  // Durable when it returns.
  virtual absl::Status Write(uint64_t offset, std::string_view bytes) = 0;
};

// Not thread-safe.
class Anchor {
 public:
  // The newest readable slot of the file; nothing when there is no file, or an empty one. Changes
  // nothing. STORE_DAMAGED when no slot is readable, STORE_VERSION for one of a newer build.
  static absl::StatusOr<std::optional<AnchorValue>> Read(const std::string& path);
  // Opens or makes the file. Errors as Read.
  static absl::StatusOr<std::unique_ptr<Anchor>> Open(const std::string& path);
  // Likewise over `file`, called `path` in messages.
  static absl::StatusOr<std::unique_ptr<Anchor>> Over(std::unique_ptr<AnchorFile> file,
                                                      const std::string& path);
  Anchor(const Anchor&) = delete;
  Anchor& operator=(const Anchor&) = delete;

  // The newest readable slot; nothing in a new file.
  const std::optional<AnchorValue>& value() const { return value_; }
  // Durable when it returns.
  absl::Status Write(const AnchorValue& value);

 private:
  explicit Anchor(std::unique_ptr<AnchorFile> file) : file_(std::move(file)) {}
  std::unique_ptr<AnchorFile> file_;
  std::optional<AnchorValue> value_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_ANCHOR_H_
