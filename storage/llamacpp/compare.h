// Two logits files of llama.cpp over the same text, position by position.

#ifndef ASSAY_STORAGE_LLAMACPP_COMPARE_H_
#define ASSAY_STORAGE_LLAMACPP_COMPARE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/llamacpp/logits_file.h"
#include "storage/llamacpp/rows.h"

namespace assay {

// Every row of both, in file order, computed by `threads` threads; the result does not depend on
// their number. Refused: LLAMACPP_DIFFERS (coding, vocabulary, chunks or tokens are not the same,
// with all differences), LLAMACPP_INVALID (a row's probabilities do not add up to one, so it is
// damaged), INFINITE_POSITION. Errors name chunk and position.
absl::StatusOr<std::vector<LogitsPairRow>> CompareLogitsFiles(const LlamacppLogits& base,
                                                              const LlamacppLogits& cand,
                                                              int threads);

// What the tool computes of the base and the candidate's raw logits: `path` holds float32 [rows,
// V], little-endian, nothing else. LLAMACPP_INVALID for another size or a value that is no finite
// number, naming its place; also for a base that the tool can't read ("_logits2").
absl::StatusOr<std::vector<LlamacppToolRow>> ToolRowsOfRaw(const LlamacppLogits& base,
                                                           const std::string& path, int threads);

// Means, quantiles and agreement of the rows, with the bound of what the coding changes.
Json SummarizeLogitsRows(const std::vector<LogitsPairRow>& rows);

}  // namespace assay

#endif  // ASSAY_STORAGE_LLAMACPP_COMPARE_H_
