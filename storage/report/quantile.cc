#include "storage/report/quantile.h"

#include <cmath>
#include <cstddef>

namespace assay {

double LinearQuantile(std::span<const double> sorted, double q) {
  const double h = q * static_cast<double>(sorted.size() - 1);
  const double low = std::trunc(h);
  const double w = h - low;
  const double a = sorted[static_cast<size_t>(low)];
  if (w == 0) return a;
  const double b = sorted[static_cast<size_t>(std::ceil(h))];
  if (std::isinf(b)) return b;  // (b - a) * w would be NaN when both are infinite
  if (w < 0.5) return a + w * (b - a);
  return b - (b - a) * (1 - w);
}

double LowerMedian(std::span<const double> sorted) { return sorted[(sorted.size() - 1) / 2]; }

double MiddleMedian(std::span<const double> sorted) {
  const size_t n = sorted.size();
  if (n % 2 == 1) return sorted[n / 2];
  return (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

}  // namespace assay
