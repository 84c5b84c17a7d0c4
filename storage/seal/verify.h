// Offline verification of receipts and of the folders that `assay score` writes. Needs no server.

#ifndef ASSAY_STORAGE_SEAL_VERIFY_H_
#define ASSAY_STORAGE_SEAL_VERIFY_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "storage/base/json.h"
#include "storage/seal/signer.h"

namespace assay {

enum class GateState { kPass, kFail, kNotApplicable };
enum class Verdict { kValid, kValidUnknownKey, kFailed };

std::string_view GateStateName(GateState state);  // "pass", "fail", "not-applicable"
std::string_view VerdictName(Verdict verdict);    // "valid", "valid-unknown-key", "failed"

struct Gate {
  std::string subject;  // candidate label or file that the gate is about
  std::string name;     // stable: "signature", "report-digest", "inclusion", ...
  GateState state = GateState::kNotApplicable;
  std::string reason;   // UPPER_SNAKE when it failed
  std::string message;  // names the file; when it failed says what to do
};

struct Verification {
  std::vector<Gate> gates;
  Verdict verdict = Verdict::kFailed;
  std::vector<std::string> key_ids;      // keys that signed, distinct, in order met
  std::vector<std::string> receipt_ids;  // of the receipts looked at

  Json ToJson() const;              // {"verdict","gates":[...],"key_ids","receipt_ids"}
  std::string ToText() const;       // one line per gate and a verdict line; ends with a newline
  std::string ToBriefText() const;  // the same without the gates that did not fail
};

// Names used in messages.
struct ReceiptNames {
  std::string receipt = "receipt.json";
  std::string report = "report.json";
  std::string execution = "execution.json";
};

// OK when `path` holds what VerifyDirectory takes as key_path. KEY_INVALID, KEY_LIST_INVALID,
// FILE_*.
absl::Status CheckTrustFile(const std::string& path);

// Checks one receipt from bytes. Absent report or execution: their gates are not applicable.
// Without trusted keys the receipt's own key is used, and the best verdict is kValidUnknownKey.
Verification VerifyReceipt(std::string_view receipt, std::optional<std::string_view> report,
                           std::optional<std::string_view> execution,
                           std::span<const PublicKey> trusted_keys, const ReceiptNames& names = {});

// Checks what lies at `path`: a folder with candidates (the --out of a run), one candidate's
// folder, or a receipt file (with whatever lies beside it). `key_path` is a public key (PEM) or a
// list of keys (assay-keys/1), each trusted for the leaves it was in use for; "" means no trusted
// key: key.pub of the folder must then match the receipts, but counts as unknown. Never fails to
// answer: unreadable input is a failed gate, of reason NOTHING_TO_VERIFY when no result was found
// at all.
// `without_positions`: the arrays were left out on purpose; what needs them is not applicable.
Verification VerifyDirectory(const std::string& path, const std::string& key_path,
                             bool without_positions = false);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_VERIFY_H_
