#include "storage/seal/gates.h"

#include <algorithm>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/report.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/statement.h"

namespace assay {
namespace {

absl::Status Mismatch(const std::string& reason, const std::string& message) {
  return DataLossError(reason, message);
}

absl::Status CheckSubject(const Statement& statement, std::string_view subject,
                          std::string_view bytes, const std::string& file) {
  const auto it = statement.subjects.find(std::string(subject));
  if (it == statement.subjects.end()) {
    return Mismatch("STATEMENT_INVALID",
                    file + ": the receipt's statement names no " + std::string(subject));
  }
  const std::string actual = Sha256Hex(bytes);
  if (actual == it->second) return absl::OkStatus();
  return Mismatch("DIGEST_MISMATCH", file + ": has SHA-256 " + actual + ", the receipt seals " +
                                         it->second +
                                         "; the file was changed, fetch it again from the service");
}

absl::Status CheckInputs(const Statement& statement, std::string_view report,
                         const std::string& file) {
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseReport(report, file));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<InputDigest> inputs, InputsOfReport(json));
  for (const InputDigest& input : inputs) {
    const auto it = statement.subjects.find("input/" + input.name);
    if (it == statement.subjects.end() || it->second != input.sha256) {
      return Mismatch("INPUT_MISMATCH",
                      file + ": input " + input.name + " is not the one that the receipt seals");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLog(const ReceiptParts& parts, const Statement& statement, const PublicKey& key,
                      const std::string& receipt, GateList* gates, const std::string& subject) {
  const auto parsed = ParseCheckpoint(parts.checkpoint);
  if (!parsed.ok()) return Annotate(parsed.status(), receipt);
  const SignedCheckpoint& note = *parsed;
  if (note.checkpoint.origin != statement.log_origin) {
    return Mismatch("CHECKPOINT_INVALID", receipt + ": its checkpoint is of another log (" +
                                              note.checkpoint.origin + ") than the statement");
  }
  gates->Check(
      subject, "checkpoint-signature",
      CheckpointSignedBy(note, key)
          ? absl::OkStatus()
          : Mismatch("SIGNATURE_INVALID", receipt + ": the checkpoint's signature does not verify"),
      "signed by key " + key.key_id());
  if (VerifyInclusion(LogLeafHash(parts.envelope), parts.leaf_index, note.checkpoint.size,
                      parts.inclusion_path, note.checkpoint.root)) {
    return absl::OkStatus();
  }
  return Mismatch("INCLUSION_INVALID",
                  receipt +
                      ": the log's root does not follow from this receipt; fetch the receipt "
                      "again from the service");
}

}  // namespace

absl::StatusOr<Trust> Trust::FromFile(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kKeyListBytesMax));
  Trust trust;
  if (bytes.rfind('{', 0) == 0) {
    ASSAY_ASSIGN_OR_RETURN(const KeyList list, KeyList::Parse(bytes, path));
    trust.Extend(list, list.active().key);
    return trust;
  }
  ASSAY_ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromPem(bytes, path));
  trust.keys.push_back(key);
  return trust;
}

void Trust::Extend(const KeyList& more, const std::optional<PublicKey>& key) {
  const bool related = (key && more.Find(*key) != nullptr) ||
                       std::any_of(keys.begin(), keys.end(), [&](const PublicKey& known) {
                         return more.Find(known) != nullptr;
                       });
  if (!related) return;
  for (const LogKey& entry : more.keys()) {
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) keys.push_back(entry.key);
  }
  list = more;
}

absl::Status Trust::Check(const PublicKey& key, uint64_t leaf, const std::string& where) const {
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
    return Mismatch("KEY_MISMATCH", where + ": was signed by key " + key.key_id() +
                                        ", which is not the trusted key; ask the service which key "
                                        "it signs with");
  }
  if (list && list->Find(key) != nullptr) return Annotate(list->CheckLeaf(key, leaf), where);
  return absl::OkStatus();
}

void GateList::Pass(const std::string& subject, const std::string& name,
                    const std::string& message) {
  out_.gates.push_back({subject, name, GateState::kPass, "", message});
}

void GateList::Skip(const std::string& subject, const std::string& name,
                    const std::string& message) {
  out_.gates.push_back({subject, name, GateState::kNotApplicable, "", message});
}

void GateList::Fail(const std::string& subject, const std::string& name, const std::string& reason,
                    const std::string& message) {
  failed_ = true;
  out_.gates.push_back({subject, name, GateState::kFail, reason, message});
}

bool GateList::Check(const std::string& subject, const std::string& name,
                     const absl::Status& status, const std::string& message) {
  if (status.ok()) {
    Pass(subject, name, message);
  } else {
    Fail(subject, name, ReasonOf(status), MessageOf(status));
  }
  return status.ok();
}

void GateList::SawKey(const std::string& key_id) {
  if (std::find(out_.key_ids.begin(), out_.key_ids.end(), key_id) == out_.key_ids.end()) {
    out_.key_ids.push_back(key_id);
  }
}

void GateList::SawReceipt(const std::string& receipt_id) { out_.receipt_ids.push_back(receipt_id); }

Verification GateList::Finish(bool trusted) {
  if (failed_ || out_.receipt_ids.empty()) {
    out_.verdict = Verdict::kFailed;
  } else {
    out_.verdict = trusted ? Verdict::kValid : Verdict::kValidUnknownKey;
  }
  return std::move(out_);
}

std::optional<PublicKey> CheckReceiptGates(std::string_view receipt,
                                           std::optional<std::string_view> report,
                                           std::optional<std::string_view> execution,
                                           const Trust& trust, const ReceiptNames& names,
                                           const std::string& subject, GateList* gates) {
  const auto parts = ParseReceipt(receipt, names.receipt);
  if (!gates->Check(subject, "receipt-form", parts.status(), names.receipt + " is canonical")) {
    return std::nullopt;
  }
  const auto key = PublicKey::FromPem(parts->public_key_pem, names.receipt + ": public_key");
  absl::Status key_status = key.status();
  if (key.ok() && key->key_id() != parts->key_id) {
    key_status = Mismatch("RECEIPT_INVALID", names.receipt + ": key_id is not its public key's");
  }
  if (key_status.ok() && !trust.keys.empty()) {
    key_status = trust.Check(*key, parts->leaf_index, names.receipt);
  }
  if (!gates->Check(subject, "key", key_status,
                    trust.keys.empty() ? "no trusted key was given; using the receipt's own"
                                       : "is the trusted key")) {
    return std::nullopt;
  }
  gates->SawKey(parts->key_id);
  const bool signed_well =
      parts->payload_type == kPayloadType &&
      key->Verify(DssePae(parts->payload_type, parts->payload), parts->signature);
  gates->Check(subject, "signature",
               signed_well ? absl::OkStatus()
                           : Mismatch("SIGNATURE_INVALID",
                                      names.receipt + ": the statement's signature does not "
                                                      "verify; fetch the receipt again"),
               "Ed25519 over the DSSE envelope verifies");
  const auto statement = ParseStatement(parts->payload);
  if (!gates->Check(subject, "statement", Annotate(statement.status(), names.receipt),
                    "in-toto statement, predicate " + std::string(kPredicateType))) {
    return *key;
  }
  gates->Check(subject, "inclusion",
               CheckLog(*parts, *statement, *key, names.receipt, gates, subject),
               "leaf " + std::to_string(parts->leaf_index) + " is under the log's signed root");
  if (report) {
    gates->Check(subject, "report-digest",
                 CheckSubject(*statement, kReportSubject, *report, names.report),
                 names.report + " is the sealed report");
    gates->Check(subject, "report-inputs", CheckInputs(*statement, *report, names.report),
                 "every input that the report names is sealed");
  } else {
    gates->Skip(subject, "report-digest", "no " + names.report + " was given");
  }
  if (execution) {
    gates->Check(subject, "execution-digest",
                 CheckSubject(*statement, kExecutionSubject, *execution, names.execution),
                 names.execution + " is the sealed execution record");
  } else {
    gates->Skip(subject, "execution-digest", "no " + names.execution + " was given");
  }
  gates->SawReceipt(HexOf(std::span<const uint8_t>(LogLeafHash(parts->envelope))));
  return *key;
}

}  // namespace assay
