// Distribution functions that joint statistics need, in float64 (specs: fidelity-dataset 4.1).

#ifndef ASSAY_STORAGE_REPORT_DISTRIBUTIONS_H_
#define ASSAY_STORAGE_REPORT_DISTRIBUTIONS_H_

#include <cstdint>

namespace assay {

// Standard normal, as Python's statistics.NormalDist: by erf, and Wichura's algorithm AS 241
// (Applied Statistics 37, 1988) for 0 < p < 1.
double NormalCdf(double x);
double NormalQuantile(double p);

// P(X > x) of chi-squared with one degree of freedom: erfc(sqrt(x / 2)); 1 for x <= 0.
double ChiSquaredTail1(double x);

// Two-sided probability of `k` or fewer, or as extreme, of n fair draws: 2 sum_{i<=m} C(n,i) / 2^n,
// m = min(k, n - k), at most 1.
double BinomialTwoSided(int64_t k, int64_t n);

// Student's t with `df` >= 1 degrees of freedom at 0 < p < 1: the regularized incomplete beta
// function (continued fraction, Lentz) inverted by bisection. Good to 1e-12 relative.
double StudentTQuantile(double p, double df);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_DISTRIBUTIONS_H_
