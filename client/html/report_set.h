// What lies in the folder of a result, read and checked against each other.

#ifndef ASSAY_CLIENT_HTML_REPORT_SET_H_
#define ASSAY_CLIENT_HTML_REPORT_SET_H_

#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// summary.json of `out`. FILE_MISSING says what to give; SUMMARY_INVALID for another document.
absl::StatusOr<Json> ReadSummary(const std::string& out);

// report.json of a candidate that `entry` (of summary.json) lists; SUMMARY_MISMATCH when it is not
// the one that the summary was made from.
absl::StatusOr<Json> ReadCandidateReport(const std::string& out, const Json& entry);

// Bytes of a model's weights: body, embedding and, unless it is the embedding, head, each at its
// bits per weight. Of a what-if too, where the file's size says nothing. File size where a part is
// unknown; null where that is a what-if's or unknown too.
Json WeightBytes(const Json& sizes, bool tied);
// The same of the candidate of a report.
Json CandidateWeightBytes(const Json& report);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_REPORT_SET_H_
