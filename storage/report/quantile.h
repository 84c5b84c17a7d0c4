// Exact order statistics.

#ifndef ASSAY_STORAGE_REPORT_QUANTILE_H_
#define ASSAY_STORAGE_REPORT_QUANTILE_H_

#include <span>

namespace assay {

// Linear interpolation between order statistics (torch.quantile and numpy's default; qwen-suites
// 3.4): h = q (n-1), a = x[trunc h], b = x[ceil h], w = h - trunc h; a + w (b-a) below w = 1/2,
// else b - (b-a)(1-w). `sorted` ascends, is not empty, holds no NaN; 0 <= q <= 1. An infinite upper
// neighbour with w > 0 makes the quantile infinite.
double LinearQuantile(std::span<const double> sorted, double q);

// Element (n-1) div 2: the lower median (torch.median).
double LowerMedian(std::span<const double> sorted);

// Middle element, or the mean of the two middle ones (statistics.median).
double MiddleMedian(std::span<const double> sorted);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_QUANTILE_H_
