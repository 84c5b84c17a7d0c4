// Reads the batch chain from its start and compares it with the anchor.

#ifndef ASSAY_STORAGE_DB_CHAIN_WALK_H_
#define ASSAY_STORAGE_DB_CHAIN_WALK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "storage/db/anchor.h"

namespace assay {

enum class AnchorState {
  kAgrees,   // names the last batch, or the one before it: a crash lies between commit and anchor
  kNew,      // none yet, and no more than one batch
  kMissing,  // none, though there are batches
  kBehind,   // names an earlier batch of this chain: an old copy of the file
  kAhead,    // names a batch that the chain does not reach: acknowledged batches are lost
  kForeign,  // the batch that it names has another hash
};

struct AnchorVerdict {
  AnchorState state = AnchorState::kNew;
  absl::Status status;  // STORE_DAMAGED unless kAgrees or kNew
};

class ChainWalk {
 public:
  // `dir` is for messages.
  ChainWalk(std::string dir, std::optional<AnchorValue> anchor)
      : dir_(std::move(dir)), anchor_(std::move(anchor)) {}
  // The next stored link. STORE_DAMAGED when it cannot be read or does not follow, STORE_VERSION.
  absl::Status Next(std::string_view stored);
  // After the last link.
  AnchorVerdict Finish() const;

  uint64_t seq() const { return seq_; }
  const std::string& hash() const { return hash_; }  // 32 bytes
  std::string hash_hex() const;

 private:
  std::string dir_;
  std::optional<AnchorValue> anchor_;
  uint64_t seq_ = 0;
  std::string hash_ = std::string(32, '\0');
  std::string anchored_hash_;  // hex, of the batch that the anchor names
};

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_CHAIN_WALK_H_
