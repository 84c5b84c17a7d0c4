// The cumulative tail of several published reports: histogram counts add, and quantiles are read
// off the sum as the bins that contain them (specs: qwen-suites 4.2).

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_TAIL_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_TAIL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// `tails`: kld_tail members whose counts are sound (RecomputePublishedReport accepted them), at
// least one. `source` and `method` are the receipt's prose. NOT_COMPARABLE when edges differ.
absl::StatusOr<Json> CumulativeTailJson(const std::vector<const Json*>& tails,
                                        const std::string& source, const std::string& method);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_TAIL_H_
