// The two float64 sums that published numbers and Assay's own depend on (qwen-suites 0.3).

#ifndef ASSAY_STORAGE_REPORT_SUMS_H_
#define ASSAY_STORAGE_REPORT_SUMS_H_

#include <span>
#include <vector>

namespace assay {

// "FS": the exactly rounded sum of everything added (round half to even, once), whatever the order.
// Shewchuk, "Adaptive Precision Floating-Point Arithmetic" (1997), as in CPython's math.fsum.
// Addends are finite and their partial sums do not overflow.
class ExactSum {
 public:
  void Add(double value);
  double Result() const;

 private:
  std::vector<double> partials_;  // non-overlapping, increasing magnitude
};

double ExactSumOf(std::span<const double> values);
// Exactly rounded sum, divided by the count once; 0 for nothing.
double ExactMean(std::span<const double> values);

// "S12": Neumaier's compensated sum, as CPython >= 3.12's sum() of floats. Depends on the order.
class CompensatedSum {
 public:
  void Add(double value);
  double Result() const;

 private:
  double sum_ = 0, compensation_ = 0;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_SUMS_H_
