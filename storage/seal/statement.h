// The in-toto statement inside a receipt's envelope. Internal to storage/seal.

#ifndef ASSAY_STORAGE_SEAL_STATEMENT_H_
#define ASSAY_STORAGE_SEAL_STATEMENT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/seal/receipt.h"

namespace assay {

inline constexpr std::string_view kReportSubject = "report.json";
inline constexpr std::string_view kExecutionSubject = "execution.json";
inline constexpr size_t kStatementSubjectsMax = 1 << 16;

// RFC 8785 bytes of the statement: report and execution record first, then the inputs in the order
// given.
absl::StatusOr<std::string> StatementBytes(const std::string& report_sha256,
                                           const std::string& execution_sha256,
                                           const std::vector<InputDigest>& inputs,
                                           const std::string& log_origin);

struct Statement {
  std::map<std::string, std::string> subjects;  // name -> SHA-256
  std::string log_origin;
};

// STATEMENT_INVALID unless canonical, of the known types and with unique subjects.
absl::StatusOr<Statement> ParseStatement(std::string_view bytes);

// receipt.json taken apart; forms are checked, nothing is verified.
struct ReceiptParts {
  std::string envelope;  // RFC 8785 bytes: the log leaf
  std::string payload, payload_type;
  std::string signature;  // 64 bytes
  uint64_t leaf_index = 0;
  std::vector<DigestBytes> inclusion_path;
  std::string checkpoint;
  std::string key_id;
  std::string public_key_pem;
};

// RECEIPT_INVALID, starting with `where`, unless the bytes are exactly a canonical receipt.
absl::StatusOr<ReceiptParts> ParseReceipt(std::string_view bytes, std::string_view where);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_STATEMENT_H_
