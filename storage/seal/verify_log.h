// Verification of a receipt against a later state of its log: offline, from documents alone.

#ifndef ASSAY_STORAGE_SEAL_VERIFY_LOG_H_
#define ASSAY_STORAGE_SEAL_VERIFY_LOG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/verify.h"

namespace assay {

// A checkpoint that the user kept: a signed note, or the one inside a receipt.json.
struct KeptCheckpoint {
  std::string name;  // for messages
  SignedCheckpoint note;
};

// CHECKPOINT_INVALID, RECEIPT_INVALID, naming `name`.
absl::StatusOr<KeptCheckpoint> ReadCheckpoint(std::string_view bytes, const std::string& name);

// Everything that VerifyDirectory checks of one receipt or candidate's folder at `path`, and
// against `proof` (bytes of an assay-log-proof/1, called `proof_name` in messages): that the
// proof's checkpoint is signed by a trusted key, that the receipt is in that log, and that the log
// of the receipt's own checkpoint and of every one in `older` is the beginning of that log. Keys
// that the proof's list joins to a trusted key are trusted for the leaves they were in use for.
Verification VerifyWithProof(const std::string& path, const std::string& key_path,
                             std::string_view proof, const std::string& proof_name,
                             const std::vector<KeptCheckpoint>& older);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_VERIFY_LOG_H_
