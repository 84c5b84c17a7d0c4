#include "storage/report/sums.h"

#include <cmath>
#include <utility>

namespace assay {

void ExactSum::Add(double value) {
  size_t kept = 0;
  double x = value;
  for (double y : partials_) {
    if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
    const double high = x + y;
    const double low = y - (high - x);
    if (low != 0) partials_[kept++] = low;
    x = high;
  }
  partials_.resize(kept);
  partials_.push_back(x);
}

double ExactSum::Result() const {
  size_t n = partials_.size();
  if (n == 0) return 0;
  double high = partials_[--n];
  double low = 0;
  while (n > 0) {
    const double x = high;
    const double y = partials_[--n];
    high = x + y;
    low = y - (high - x);
    if (low != 0) break;
  }
  // A tie between two doubles is only a tie if nothing further down breaks it.
  if (n > 0 && ((low < 0 && partials_[n - 1] < 0) || (low > 0 && partials_[n - 1] > 0))) {
    const double y = low * 2;
    const double x = high + y;
    if (y == x - high) high = x;
  }
  return high;
}

double ExactSumOf(std::span<const double> values) {
  ExactSum sum;
  for (const double value : values) sum.Add(value);
  return sum.Result();
}

double ExactMean(std::span<const double> values) {
  if (values.empty()) return 0;
  return ExactSumOf(values) / static_cast<double>(values.size());
}

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

void CompensatedSum::Add(double value) {
  const double t = sum_ + value;
  if (std::fabs(sum_) >= std::fabs(value)) {
    compensation_ += (sum_ - t) + value;
  } else {
    compensation_ += (value - t) + sum_;
  }
  sum_ = t;
}

double CompensatedSum::Result() const {
  if (compensation_ != 0 && std::isfinite(compensation_)) return sum_ + compensation_;
  return sum_;
}

}  // namespace assay
