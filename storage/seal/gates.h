// Collecting the gates of a verification. Internal to storage/seal.

#ifndef ASSAY_STORAGE_SEAL_GATES_H_
#define ASSAY_STORAGE_SEAL_GATES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "storage/seal/verify.h"

namespace assay {

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
                                           std::span<const PublicKey> trusted_keys,
                                           const ReceiptNames& names, const std::string& subject,
                                           GateList* gates);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_GATES_H_
