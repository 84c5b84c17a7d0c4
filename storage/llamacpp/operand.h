// A logits file of llama.cpp as an operand: the file itself, the suite of its text, and what it may
// be compared with.
//
// OPERAND/operand.json ("assay-logits-operand/1"), OPERAND/logits.kld, OPERAND/suite/.

#ifndef ASSAY_STORAGE_LLAMACPP_OPERAND_H_
#define ASSAY_STORAGE_LLAMACPP_OPERAND_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/llamacpp/suite.h"

namespace assay {

inline constexpr std::string_view kLogitsOperandSchema = "assay-logits-operand/1";
inline constexpr std::string_view kLogitsOperandFile = "operand.json";
inline constexpr std::string_view kLogitsOperandData = "logits.kld";

// Checks `file` as Open does and writes it, its suite and operand.json into `dir`, which is made;
// operand.json last. Returns what operand.json says. The errors of LlamacppLogits::Open and
// WriteLlamacppSuite.
absl::StatusOr<Json> ImportLlamacppLogits(const std::string& file,
                                          const LlamacppSuiteOptions& options,
                                          const std::string& dir);

// The logits file of `path`: itself, or of an imported operand, whose digest must be the one that
// its operand.json states. DIGEST_MISMATCH, FIELD_*.
absl::StatusOr<std::string> LlamacppFileOf(const std::string& path);

}  // namespace assay

#endif  // ASSAY_STORAGE_LLAMACPP_OPERAND_H_
