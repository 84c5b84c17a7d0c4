// Collecting the gates of a verification. Internal to storage/seal.

#ifndef ASSAY_STORAGE_SEAL_GATES_H_
#define ASSAY_STORAGE_SEAL_GATES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "storage/seal/key_list.h"
#include "storage/seal/verify.h"

namespace assay {

// Whose signatures count. No keys: a receipt's own key is used, and nothing is trusted.
struct Trust {
  std::vector<PublicKey> keys;
  std::optional<KeyList>
      list;  // when given, a key counts only for the leaves that it was in use for

  // Of a public key (PEM) or a list of keys (assay-keys/1). KEY_INVALID, KEY_LIST_INVALID, FILE_*.
  static absl::StatusOr<Trust> FromFile(const std::string& path);
  // Takes in the keys of `list` when it holds `key`, or one of `keys` that are trusted already:
  // each key of a list was signed for by the one before it and names it.
  void Extend(const KeyList& list, const std::optional<PublicKey>& key = std::nullopt);
  // OK when `key` may have signed leaf `leaf`: KEY_MISMATCH, KEY_RETIRED; `where` is named.
  absl::Status Check(const PublicKey& key, uint64_t leaf, const std::string& where) const;
};

class GateList {
 public:
  void Pass(const std::string& subject, const std::string& name, const std::string& message);
  void Skip(const std::string& subject, const std::string& name, const std::string& message);
  void Fail(const std::string& subject, const std::string& name, const std::string& reason,
            const std::string& message);
  // Pass with `message` when `status` is OK, else Fail with the status's reason and message.
  bool Check(const std::string& subject, const std::string& name, const absl::Status& status,
             const std::string& message);

  void SawKey(const std::string& key_id);
  void SawReceipt(const std::string& receipt_id);

  // kFailed when a gate failed or no receipt was verified.
  Verification Finish(bool trusted);

 private:
  Verification out_;
  bool failed_ = false;
};

// The gates of one receipt (see VerifyReceipt) under `subject`. Returns the receipt's own public
// key when the receipt could be read.
std::optional<PublicKey> CheckReceiptGates(std::string_view receipt,
                                           std::optional<std::string_view> report,
                                           std::optional<std::string_view> execution,
                                           const Trust& trust, const ReceiptNames& names,
                                           const std::string& subject, GateList* gates);

// The gates of whatever lies at `path` (see VerifyDirectory).
void CheckPath(std::string path, const Trust& trust, GateList* gates,
               bool without_positions = false);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_GATES_H_
