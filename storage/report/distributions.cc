#include "storage/report/distributions.h"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

template <size_t N>
double Polynomial(const double (&coefficients)[N], double x) {  // highest power first
  double value = 0;
  for (const double c : coefficients) value = value * x + c;
  return value;
}

constexpr double kCentreUp[] = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                                6.7265770927008700853e+4, 4.5921953931549871457e+4,
                                1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr double kCentreDown[] = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                                  3.9307895800092710610e+4, 2.1213794301586595867e+4,
                                  5.3941960214247511077e+3, 6.8718700749205790830e+2,
                                  4.2313330701600911252e+1, 1.0};
constexpr double kMiddleUp[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr double kMiddleDown[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                  1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                  6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                  2.05319162663775882187e+0, 1.0};
constexpr double kTailUp[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                              1.24266094738807843860e-3, 2.65321895265761230930e-2,
                              2.96560571828504891230e-1, 1.78482653991729133580e+0,
                              5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr double kTailDown[] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                5.99832206555887937690e-1,  1.0};

// Regularized incomplete beta function I_x(a, b).
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - IncompleteBeta(b, a, 1 - x);
  constexpr double kTiny = 1e-300;
  const double front = std::exp(a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) -
                                std::lgamma(a) - std::lgamma(b)) /
                       a;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
  double h = d;
  for (int m = 1; m < 500; ++m) {
    for (const bool even : {true, false}) {
      const double term = even ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                               : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 + term * d;
      d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
      c = 1 + term / (std::fabs(c) < kTiny ? kTiny : c);
      h *= c * d;
    }
    if (std::fabs(c * d - 1) < 1e-16) break;
  }
  return front * h;
}

}  // namespace

double NormalCdf(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kCentreUp, r) / Polynomial(kCentreDown, r);
  }
  double r = std::sqrt(-std::log(q <= 0 ? p : 1 - p));
  double x;
  if (r <= 5) {
    r -= 1.6;
    x = Polynomial(kMiddleUp, r) / Polynomial(kMiddleDown, r);
  } else {
    r -= 5;
    x = Polynomial(kTailUp, r) / Polynomial(kTailDown, r);
  }
  return q < 0 ? -x : x;
}

double ChiSquaredTail1(double x) { return x <= 0 ? 1.0 : std::erfc(std::sqrt(x / 2)); }

double BinomialTwoSided(int64_t k, int64_t n) {
  const int64_t m = std::min(k, n - k);
  // C(n, i) / 2^n relative to the largest, i = m, so that nothing under- or overflows.
  double sum = 0, term = 1;
  for (int64_t i = m; i >= 0 && term > 0; --i) {
    sum += term;
    term *= static_cast<double>(i) / static_cast<double>(n - i + 1);
  }
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const double log_largest = std::lgamma(real(n) + 1) - std::lgamma(real(m) + 1) -
                             std::lgamma(real(n - m) + 1) - real(n) * std::log(2.0);
  return std::min(1.0, 2 * sum * std::exp(log_largest));
}

double StudentTQuantile(double p, double df) {
  if (p < 0.5) return -StudentTQuantile(1 - p, df);
  double low = 0, high = 1;
  const auto tail = [df](double t) { return 0.5 * IncompleteBeta(df / 2, 0.5, df / (df + t * t)); };
  while (tail(high) > 1 - p && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = low + (high - low) / 2;
    (tail(middle) > 1 - p ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

}  // namespace assay
