// The published replay reports qwen38-fidelity-report/1 to /3 and the comparison of two of them,
// qwen38-fidelity-paired/1 to /3 (specs: qwen-suites 3.3 to 3.8, 4.1).
//
// A published report is checked by computing it again from its own rows: the recomputed document,
// written with PythonPrettyJson, has the bytes of the file.

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_REPORT_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_REPORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// Means of float64 vectors were added by torch in an order of its own; they agree with exact sums
// this far (relative).
inline constexpr double kTorchMeanTolerance = 1e-12;

// `report` with every member that follows from others computed anew: schema and window from
// score_from and rows; counts; maxima; macro mean, interval, JSD and top-1; strata; worst contexts;
// both row lists; of the histogram the edges, totals and repeated quantiles; the headline quantiles
// from the histogram's. Members are emitted in the order of `report`; those of a generation that
// lacks them stay absent. Not derivable and copied: identities, digests, prose, the rows' own
// numbers, histogram counts and minimum, quantiles. REPORT_INVALID, FIELD_*, and REPORT_MISMATCH
// for token_mean_kld beyond kTorchMeanTolerance of the rows, a top-1 rate that is no count of hits,
// or a largest value that the histogram contradicts.
absl::StatusOr<Json> RecomputePublishedReport(const Json& report, std::string_view where);

// One side of a comparison.
struct PublishedSide {
  std::string path;   // as the document names it
  std::string label;  // "" = null
  Json report;
};

struct PublishedPairOptions {
  uint32_t samples = 10000;
  int generation = 3;  // 1 and 2 count ties among b's wins; 1 states no suite, filter and head
  bool across_comparators = false;  // reports whose comparators differ are compared all the same
};

// qwen38-fidelity-paired/N: A minus B by context, ascending index, seed 1. NOT_COMPARABLE with
// every reason of ComparePublished.
absl::StatusOr<Json> PairPublishedReports(const PublishedSide& a, const PublishedSide& b,
                                          const PublishedPairOptions& options = {});

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_REPORT_H_
