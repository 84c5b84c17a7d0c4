// Proofs of a log as a document, assay-log-proof/1, and their verification: that a receipt is in
// the log as its newest signed checkpoint states it, and that the log of every older checkpoint is
// the beginning of that log. RFC 6962 2.1.1 and 2.1.2.
//
//   {"schema":"assay-log-proof/1","checkpoint":NOTE,"leaf_index":N|null,"inclusion_path":[hex],
//    "consistency":[{"old_size","path":[hex]}],"keys":{assay-keys/1}}

#ifndef ASSAY_STORAGE_SEAL_LOG_PROOF_H_
#define ASSAY_STORAGE_SEAL_LOG_PROOF_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/seal/key_list.h"
#include "storage/seal/merkle.h"

namespace assay {

inline constexpr std::string_view kLogProofSchema = "assay-log-proof/1";
inline constexpr size_t kProofPathMax = 64;    // hashes: no log has more than 2^64 leaves
inline constexpr size_t kConsistencyMax = 16;  // older sizes in one proof
inline constexpr uint64_t kLogProofBytesMax = uint64_t{4} << 20;

struct ConsistencyPath {
  uint64_t old_size = 0;
  std::vector<DigestBytes> path;
};

struct LogProof {
  std::string checkpoint;              // signed note of the newest log
  std::optional<uint64_t> leaf_index;  // none: no receipt was asked about
  std::vector<DigestBytes> inclusion_path;
  std::vector<ConsistencyPath> consistency;  // each size once
  std::string keys;                          // assay-keys/1, or ""
};

// The path from the log of `old_size` leaves, or nullptr; it lives as long as `proof`.
const ConsistencyPath* PathOf(const LogProof& proof, uint64_t old_size);

// Proofs from the node hashes in `log` against `checkpoint`, a note that was signed for it.
// Sizes that are asked for twice are answered once.
// LOG_RANGE when `leaf_index` or an old size is beyond that checkpoint; CHECKPOINT_INVALID.
absl::StatusOr<LogProof> MakeLogProof(const LogReader& log, const std::string& checkpoint,
                                      std::optional<uint64_t> leaf_index,
                                      std::span<const uint64_t> old_sizes);

absl::StatusOr<Json> LogProofJson(const LogProof& proof);
// PROOF_INVALID, starting with `where`. Forms are checked, nothing is verified.
absl::StatusOr<LogProof> ParseLogProof(std::string_view bytes, std::string_view where);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_LOG_PROOF_H_
