#include "storage/seal/verify_log.h"

#include <algorithm>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/seal/gates.h"
#include "storage/seal/log_proof.h"
#include "storage/seal/statement.h"

namespace assay {
namespace {

// A checkpoint of size n was signed by the key of leaf n - 1.
absl::Status CheckSigner(const SignedCheckpoint& note, const Trust& trust,
                         const std::string& name) {
  const auto key = std::find_if(trust.keys.begin(), trust.keys.end(),
                                [&](const PublicKey& k) { return CheckpointSignedBy(note, k); });
  if (key == trust.keys.end()) {
    return DataLossError("CHECKPOINT_SIGNER",
                         name +
                             ": no trusted key signed this checkpoint; ask "
                             "the service for its list of keys and give it as --key");
  }
  const uint64_t size = note.checkpoint.size;
  return trust.Check(*key, size == 0 ? 0 : size - 1, name);
}

// The checkpoint `old` is one of the log of `now`.
absl::Status CheckExtends(const SignedCheckpoint& old, const SignedCheckpoint& now,
                          const LogProof& proof, const std::string& name) {
  if (old.checkpoint.origin != now.checkpoint.origin) {
    return DataLossError("CHECKPOINT_INVALID", name + ": is of the log " + old.checkpoint.origin +
                                                   ", the proof of " + now.checkpoint.origin);
  }
  const ConsistencyPath* path = PathOf(proof, old.checkpoint.size);
  if (path == nullptr) {
    return DataLossError("CONSISTENCY_MISSING",
                         name + ": the proof says nothing of a log of " +
                             std::to_string(old.checkpoint.size) +
                             " leaves; fetch a proof with this checkpoint as --older");
  }
  if (VerifyConsistency(old.checkpoint.size, now.checkpoint.size, path->path, old.checkpoint.root,
                        now.checkpoint.root)) {
    return absl::OkStatus();
  }
  return DataLossError("CONSISTENCY_INVALID",
                       name +
                           ": the log that it was signed for is not the beginning of the "
                           "proof's log: leaves were changed or removed, or two logs are shown. "
                           "Keep both files; together they prove it");
}

struct Receipt {
  ReceiptParts parts;
  SignedCheckpoint checkpoint;
  PublicKey key;
};

absl::StatusOr<Receipt> ReadReceiptAt(const std::string& path) {
  const std::string file = IsDirectory(path) ? JoinPath(path, kReceiptFile) : path;
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kReceiptBytesMax));
  ASSAY_ASSIGN_OR_RETURN(ReceiptParts parts, ParseReceipt(bytes, file));
  ASSAY_ASSIGN_OR_RETURN(const SignedCheckpoint note, ParseCheckpoint(parts.checkpoint));
  ASSAY_ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromPem(parts.public_key_pem, file));
  return Receipt{std::move(parts), note, key};
}

void CheckProofGates(const Receipt& receipt, const LogProof& proof, const SignedCheckpoint& now,
                     const Trust& trust, const std::string& proof_name,
                     const std::vector<KeptCheckpoint>& older, GateList* gates) {
  gates->Check(proof_name, "proof-checkpoint", CheckSigner(now, trust, proof_name),
               "the log of " + std::to_string(now.checkpoint.size) + " leaves is signed");
  const bool included =
      proof.leaf_index == receipt.parts.leaf_index &&
      VerifyInclusion(LogLeafHash(receipt.parts.envelope), receipt.parts.leaf_index,
                      now.checkpoint.size, proof.inclusion_path, now.checkpoint.root);
  gates->Check(proof_name, "proof-inclusion",
               included ? absl::OkStatus()
                        : DataLossError("INCLUSION_INVALID",
                                        proof_name + ": the receipt is not leaf " +
                                            std::to_string(receipt.parts.leaf_index) +
                                            " of the proof's log; the proof is of another receipt, "
                                            "or the log was rewritten"),
               "the receipt is leaf " + std::to_string(receipt.parts.leaf_index) + " of it");
  gates->Check("receipt", "consistency",
               CheckExtends(receipt.checkpoint, now, proof, "the receipt's checkpoint"),
               "the log of " + std::to_string(receipt.checkpoint.checkpoint.size) +
                   " leaves is its beginning");
  for (const KeptCheckpoint& kept : older) {
    absl::Status status = CheckSigner(kept.note, trust, kept.name);
    if (status.ok()) status = CheckExtends(kept.note, now, proof, kept.name);
    gates->Check(
        kept.name, "consistency", status,
        "the log of " + std::to_string(kept.note.checkpoint.size) + " leaves is its beginning");
  }
}

}  // namespace

absl::StatusOr<KeptCheckpoint> ReadCheckpoint(std::string_view bytes, const std::string& name) {
  std::string note(bytes);
  if (!bytes.empty() && bytes.front() == '{') {
    ASSAY_ASSIGN_OR_RETURN(const ReceiptParts parts, ParseReceipt(bytes, name));
    note = parts.checkpoint;
  }
  auto parsed = ParseCheckpoint(note);
  if (!parsed.ok()) return Annotate(parsed.status(), name);
  return KeptCheckpoint{name, *std::move(parsed)};
}

Verification VerifyWithProof(const std::string& path, const std::string& key_path,
                             std::string_view proof_bytes, const std::string& proof_name,
                             const std::vector<KeptCheckpoint>& older) {
  GateList gates;
  Trust trust;
  const auto refuse = [&](const std::string& subject, const char* gate,
                          const absl::Status& status) {
    gates.Fail(subject, gate, ReasonOf(status), MessageOf(status));
    return gates.Finish(false);
  };
  if (!key_path.empty()) {
    auto given = Trust::FromFile(key_path);
    if (!given.ok()) return refuse(key_path, "trusted-key", given.status());
    trust = *std::move(given);
  }
  const bool trusted = !trust.keys.empty();
  const auto receipt = ReadReceiptAt(path);
  if (!receipt.ok()) return refuse(path, "receipt-form", receipt.status());
  const auto proof = ParseLogProof(proof_bytes, proof_name);
  if (!proof.ok()) return refuse(proof_name, "proof-form", proof.status());
  const auto now = ParseCheckpoint(proof->checkpoint);
  if (!now.ok()) return refuse(proof_name, "proof-form", Annotate(now.status(), proof_name));
  if (!proof->keys.empty()) {
    const auto list = KeyList::Parse(proof->keys, proof_name + ": keys");
    if (!list.ok()) return refuse(proof_name, "proof-keys", list.status());
    trust.Extend(*list, trusted ? std::nullopt : std::optional<PublicKey>(receipt->key));
  }
  if (trust.keys.empty()) trust.keys.push_back(receipt->key);
  CheckPath(path, trust, &gates);
  CheckProofGates(*receipt, *proof, *now, trust, proof_name, older, &gates);
  return gates.Finish(trusted);
}

}  // namespace assay
