// The receipt: a signed, logged statement that binds a report and an execution record to their
// inputs by digest. docs/receipt.md has the format and how to check it by hand.
//
// receipt.json is RFC 8785 JSON, schema assay-receipt/1:
//   envelope    DSSE {payload, payloadType, signatures:[{keyid, sig}]}; the payload is an in-toto
//               Statement v1 with predicate type urn:assay:receipt:v1
//   log         {leaf_index, inclusion_path: [hex], checkpoint: signed note}
//   key_id, public_key (SPKI PEM)
// The log leaf is the RFC 8785 form of `envelope`; the receipt id is its leaf hash in hex.

#ifndef ASSAY_STORAGE_SEAL_RECEIPT_H_
#define ASSAY_STORAGE_SEAL_RECEIPT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/seal/merkle.h"
#include "storage/seal/signer.h"

namespace assay {

inline constexpr std::string_view kReceiptSchema = "assay-receipt/1";
inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
inline constexpr std::string_view kPredicateType = "urn:assay:receipt:v1";
inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
inline constexpr uint64_t kReceiptBytesMax = uint64_t{1} << 24;

// DSSE v1 pre-authentication encoding: the bytes that are signed.
std::string DssePae(std::string_view payload_type, std::string_view payload);

// An input of the report, by content: name such as "suite.tokens", "reference.capture",
// "candidate.model/model.gguf"; names are unique.
struct InputDigest {
  std::string name;
  std::string sha256;
};

// Every input that the report names, in a fixed order.
absl::StatusOr<std::vector<InputDigest>> InputsOfReport(const Json& report);

struct SealRequest {
  std::string report;     // bytes of report.json
  std::string execution;  // bytes of execution.json
  std::vector<InputDigest> inputs;
  std::string log_origin;           // first line of every checkpoint; [A-Za-z0-9./:_-]{1,128}
  std::string previous_checkpoint;  // signed note of the log as it is; "" only for an empty log
};

struct SealedBundle {
  std::string receipt;     // bytes of receipt.json
  std::string receipt_id;  // leaf hash, hex
  std::string checkpoint;  // signed note of the log with this leaf
  LogAppend append;        // to be written in the same batch as the receipt
};

// Deterministic: the same request, key and log give the same bytes. Before it signs the new
// checkpoint it proves it consistent with the previous one; LOG_INCONSISTENT otherwise.
absl::StatusOr<SealedBundle> SealReport(const SealRequest& request, const Signer& signer,
                                        const LogReader& log);

// The receipt's id without verifying it; RECEIPT_INVALID.
absl::StatusOr<std::string> ReceiptId(std::string_view receipt);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_RECEIPT_H_
