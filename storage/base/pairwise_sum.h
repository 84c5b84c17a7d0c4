// numpy's sum of a contiguous float64 array.

#ifndef ASSAY_STORAGE_BASE_PAIRWISE_SUM_H_
#define ASSAY_STORAGE_BASE_PAIRWISE_SUM_H_

#include <span>

namespace assay {

// Pairwise, in the order of numpy's DOUBLE_pairwise_sum: below 8 values one after the other, to 128
// in eight strided sums, beyond that halves at a multiple of 8.
double PairwiseSum(std::span<const double> values);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_PAIRWISE_SUM_H_
