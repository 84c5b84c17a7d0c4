// Candidates of a summary against one of them: the best, or the one that was asked for. Internal to
// storage/report.

#ifndef ASSAY_STORAGE_REPORT_VERSUS_H_
#define ASSAY_STORAGE_REPORT_VERSUS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "storage/base/json.h"
#include "storage/report/summary.h"

namespace assay {

// Adds to `summary` (its "candidates" are there, in the order of `candidates`):
//  "versus": the label asked for, or null;
//  "baselines": per head the label that the others are compared with, or null: options.versus, or
//    the candidate with the smallest mean KL (the first of equal ones; infinite means never);
//  candidates[i].heads.HEAD.versus: null for the baseline itself, else {"label","not_comparable",
//    "comparison"}: PairReports of the candidate minus the baseline, so that a positive difference
//    is worse, among as many comparisons as the head has.
// LABEL_UNKNOWN when options.versus is no candidate.
absl::Status AddVersus(const std::vector<SummaryCandidate>& candidates,
                       const SummaryOptions& options, Json* summary);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_VERSUS_H_
