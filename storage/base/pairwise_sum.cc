#include "storage/base/pairwise_sum.h"

namespace assay {

double PairwiseSum(std::span<const double> values) {
  const size_t n = values.size();
  if (n < 8) {
    double sum = n == 0 ? 0 : values[0];
    for (size_t i = 1; i < n; ++i) sum += values[i];
    return sum;
  }
  if (n > 128) {
    const size_t half = n / 2 / 8 * 8;
    return PairwiseSum(values.first(half)) + PairwiseSum(values.subspan(half));
  }
  double r[8];
  for (size_t k = 0; k < 8; ++k) r[k] = values[k];
  size_t i = 8;
  for (; i + 8 <= n; i += 8) {
    for (size_t k = 0; k < 8; ++k) r[k] += values[i + k];
  }
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; ++i) sum += values[i];
  return sum;
}

}  // namespace assay
