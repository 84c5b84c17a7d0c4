// The tail of a divergence: the published histogram (qwen-suites 3.7) and exact exceedance counts.

#ifndef ASSAY_STORAGE_REPORT_TAIL_H_
#define ASSAY_STORAGE_REPORT_TAIL_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/json.h"

namespace assay {

inline constexpr int kTailEdges = 561;
inline constexpr std::array<double, 6> kExceedanceThresholds = {1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0};

// edge[i] = 10^(-12 + i/40), i = 0..560, rounded from an extended-precision power: double pow
// differs in the last bit between instruction sets.
const std::array<double, kTailEdges>& TailEdges();

// 562 counts; bucket(v) = number of edges <= v, so 0 is v < 1e-12 and 561 is v >= 100, infinity
// included. `sorted` ascends and holds no NaN.
std::vector<uint64_t> TailCounts(std::span<const double> sorted);

// {"units","log10_low","log10_high","bins_per_decade","counts","total_count"}.
Json TailJson(std::span<const double> sorted);
// [{"threshold","positions","fraction"}]: positions strictly above each threshold.
Json ExceedanceJson(std::span<const double> sorted);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_TAIL_H_
