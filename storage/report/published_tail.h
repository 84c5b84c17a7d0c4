// The cumulative tail of several published reports: histogram counts add, and quantiles are read
// off the sum as the bins that contain them (specs: qwen-suites 4.2).

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_TAIL_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_TAIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay {

// Histograms of several reports added up.
struct SummedTail {
  std::vector<double> edges;    // ascending, the last from 1 on
  std::vector<int64_t> counts;  // edges + 1
  double max = 0;               // nats
  Json min;                     // null unless every report states its own
  Json binning;                 // the first report's
  int64_t shards = 0;
};

// The receipt's "tail": total, quantiles and exceedances of the sum, which counts at least one
// position. `source` and `method` are the receipt's prose.
Json CumulativeTailJson(const SummedTail& sum, const std::string& source,
                        const std::string& method);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_TAIL_H_
