// Paired comparison of two sets of per-context means over the same contexts (qwen-suites 4.1).

#ifndef ASSAY_STORAGE_REPORT_PAIRING_H_
#define ASSAY_STORAGE_REPORT_PAIRING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

struct PairedContext {
  std::string cluster;
  double a = 0, b = 0;
};

// {"contexts","difference_a_minus_b","median_difference","bootstrap_difference","a_wins","b_wins",
//  "ties"}. The difference is the exactly rounded mean of a - b over contexts, the interval that of
// ClusterBootstrap; a wins where a < b. Infinite contexts: the numbers are null and the interval is
// refused; wins and ties still count.
Json PairedJson(const std::vector<PairedContext>& contexts);

// Whether reports that differ in numeric policy, backend or kernels, and in nothing else, may be
// compared: only when somebody asks for it by name.
enum class AcrossPolicies { kRefuse, kAllow };

// PairedJson of mean_kl_ref_cand of two comparable reports (comparability.h) under `head`, with
// "smallest_resolvable_difference": half the width of the interval, and at least both reports'
// noise floors (null without an interval). Across policies there is "numeric_difference" as well
// (Comparability::NumericJson): part of the difference may be the arithmetic's. NOT_COMPARABLE with
// every reason.
absl::StatusOr<Json> PairReports(const Json& report_a, const Json& report_b,
                                 const std::string& head,
                                 AcrossPolicies across = AcrossPolicies::kRefuse);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PAIRING_H_
