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

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

struct AnchorValue {
  uint64_t seq = 0;
  std::string hash_hex;  // of chain link `seq`
};

// Not thread-safe.
class Anchor {
 public:
  // Opens or makes the file. STORE_DAMAGED when it exists and no slot is readable.
  static absl::StatusOr<std::unique_ptr<Anchor>> Open(const std::string& path);
  ~Anchor();
  Anchor(const Anchor&) = delete;
  Anchor& operator=(const Anchor&) = delete;

  // The newest readable slot; nothing in a new file.
  const std::optional<AnchorValue>& value() const { return value_; }
  // Durable when it returns.
  absl::Status Write(const AnchorValue& value);

 private:
  Anchor(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
  std::optional<AnchorValue> value_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_ANCHOR_H_
