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
