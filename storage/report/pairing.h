// Paired comparison of two sets of per-context means over the same contexts (qwen-suites 4.1).

#ifndef ASSAY_STORAGE_REPORT_PAIRING_H_
#define ASSAY_STORAGE_REPORT_PAIRING_H_

#include <cstdint>
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
// refused; wins and ties still count. With `comparisons` > 0 there is "simultaneous" as well:
// {"comparisons","ci95_low","ci95_high"}, an interval that holds for so many of them together
// (BootstrapResult::simultaneous_low), its ends null where there is none.
Json PairedJson(const std::vector<PairedContext>& contexts, uint64_t comparisons = 0);

// Whether reports that differ in numeric policy, backend or kernels, and in nothing else, may be
// compared: only when somebody asks for it by name.
enum class AcrossPolicies { kRefuse, kAllow };

// PairedJson of mean_kl_ref_cand of two comparable reports (comparability.h) under `head`, with
// "smallest_resolvable_difference": half the width of the interval, and at least both reports'
// noise floors (null without an interval). "distinguishable": whether the interval leaves out zero
// and the difference is larger than both noise floors; null without an interval.
// "simultaneous.distinguishable" says the same of the interval that holds for all `comparisons`
// that are looked at together. Across policies there is "numeric_difference" as well
// (Comparability::NumericJson): part of the difference may be the arithmetic's. NOT_COMPARABLE with
// every reason; REPORT_INVALID when a field is missing.
absl::StatusOr<Json> PairReports(const Json& report_a, const Json& report_b,
                                 const std::string& head,
                                 AcrossPolicies across = AcrossPolicies::kRefuse,
                                 uint64_t comparisons = 1);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PAIRING_H_
