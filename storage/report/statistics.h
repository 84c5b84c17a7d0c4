// Statistics of one comparison under one head, as the JSON that a report holds.
//
// Means are exactly rounded sums divided by the count. A mean is {"value", "infinite_count"}: value
// is null when an addend is infinite, and the count says how many are. An order statistic that is
// infinite is null. Fields and formulas: docs/report.md.

#ifndef ASSAY_STORAGE_REPORT_STATISTICS_H_
#define ASSAY_STORAGE_REPORT_STATISTICS_H_

#include <span>
#include <vector>

#include "storage/base/json.h"
#include "storage/report/positions.h"
#include "storage/report/report.h"

namespace assay {

inline constexpr size_t kWorstContexts = 20;

// {"value": exactly rounded mean or null, "infinite_count": n}. Not NaN, not empty.
Json MeanJson(std::span<const double> values);
// A finite number, or null.
Json FiniteJson(double value);

// Everything that is computed from arrays and context rows:
// {"statistics","strata","partitions","worst_contexts","contexts","arrays"}.
// Requires CheckPositionArrays OK, at least one context, and context positions that add up to
// arrays.positions.
Json HeadStatisticsJson(const std::vector<ReportContext>& contexts, const PositionArrays& arrays);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_STATISTICS_H_
