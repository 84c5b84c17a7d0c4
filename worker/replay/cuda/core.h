// The arithmetic of the GPU's metric passes, one column at a time: exp, 1 - exp, phi, the softcap
// and the divergences of two logits.
//
// Every function is plain IEEE double arithmetic with fused multiply-adds only where it says fma,
// and compiles both for the GPU and for the host: what runs on a GPU is what the host tests test.
// The formulas are those of docs/metric.md. Relative errors: CoreExp 1.5 ulp above -707; Decay's t
// and u 3 ulp, phi 8; Divergence's terms 1e-14. core_test.cc measures them against long double.

#ifndef ASSAY_WORKER_REPLAY_CUDA_CORE_H_
#define ASSAY_WORKER_REPLAY_CUDA_CORE_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define ASSAY_HD __host__ __device__ inline
#else
#define ASSAY_HD inline
#endif
#ifdef __CUDA_ARCH__
#define ASSAY_UNROLL _Pragma("unroll")
#else
#define ASSAY_UNROLL
#endif

namespace assay::cuda {

ASSAY_HD double Infinity() {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(0x7ff0000000000000ll);
#else
  return HUGE_VAL;
#endif
}

// Below this exp is taken as 0 (its true value is under 3.4e-308).
constexpr double kExpLowest = -708.0;

// 2^n, -1022 <= n <= 1023.
ASSAY_HD double PowerOfTwo(int n) {
  const int64_t bits = static_cast<int64_t>(n + 1023) << 52;
#ifdef __CUDA_ARCH__
  return __longlong_as_double(bits);
#else
  double out;
  memcpy(&out, &bits, sizeof out);
  return out;
#endif
}

// exp(x) = 2^n (1 + r + tail), |r| <= ln2 / 2, for x in [kExpLowest, 0].
struct ExpParts {
  int n;
  double r, tail;
};

ASSAY_HD ExpParts SplitExp(double x) {
  const double n = rint(x * 0x1.71547652b82fep+0);
  double r = fma(n, -0x1.62e42fefa3800p-1, x);  // the high part of ln2 has 42 bits: exact
  r = fma(n, -0x1.ef35793c76730p-45, r);
  // (exp(r) - 1 - r) / r^2: Taylor to r^13; the rest is below 2^-53 of the sum.
  double p = 1.0 / 6227020800.0;
  p = fma(p, r, 1.0 / 479001600.0);
  p = fma(p, r, 1.0 / 39916800.0);
  p = fma(p, r, 1.0 / 3628800.0);
  p = fma(p, r, 1.0 / 362880.0);
  p = fma(p, r, 1.0 / 40320.0);
  p = fma(p, r, 1.0 / 5040.0);
  p = fma(p, r, 1.0 / 720.0);
  p = fma(p, r, 1.0 / 120.0);
  p = fma(p, r, 1.0 / 24.0);
  p = fma(p, r, 1.0 / 6.0);
  p = fma(p, r, 0.5);
  return {static_cast<int>(n), r, (r * r) * p};
}

// exp(x) for x <= 0; 0 below kExpLowest and for NaN.
ASSAY_HD double CoreExp(double x) {
  if (!(x >= kExpLowest)) return 0.0;
  const ExpParts e = SplitExp(x);
  const double scale = PowerOfTwo(e.n);
  return fma(scale, e.r + e.tail, scale);
}

// For s >= 0 or +inf: t = exp(-s), u = 1 - t and phi = exp(-s) - 1 + s. Where -s needs no reduction
// (s < ln2 / 2) phi is the series itself: nothing cancels, and it is exactly 0 at s = 0.
struct Decay {
  double t, u, phi;
};

ASSAY_HD Decay DecayOf(double s) {
  if (!(s <= -kExpLowest)) return {0.0, 1.0, s - 1.0};
  const ExpParts e = SplitExp(-s);
  const double scale = PowerOfTwo(e.n);
  const double t = fma(scale, e.r + e.tail, scale);
  if (e.n == 0) return {t, s - e.tail, e.tail};
  const double u = 1.0 - t;
  return {t, u, s - u};
}

// cap * tanh(x / cap) for cap > 0 and any x; tanh(y) = u / (2 - u) with u = 1 - exp(-2|y|).
ASSAY_HD double CoreSoftcap(double x, double cap) {
  const double y = x / cap;
  const double u = DecayOf(2.0 * fabs(y)).u;
  return cap * copysign(u / (2.0 - u), y);
}

// ln(1 + t) for t in [0, 1/e]: 2 atanh(g) with g = t / (2 + t) <= 0.156.
ASSAY_HD double Log1pSmall(double t) {
  const double g = t / (2.0 + t), z = g * g;
  double p = 1.0 / 19.0;
  p = fma(p, z, 1.0 / 17.0);
  p = fma(p, z, 1.0 / 15.0);
  p = fma(p, z, 1.0 / 13.0);
  p = fma(p, z, 1.0 / 11.0);
  p = fma(p, z, 1.0 / 9.0);
  p = fma(p, z, 1.0 / 7.0);
  p = fma(p, z, 1.0 / 5.0);
  p = fma(p, z, 1.0 / 3.0);
  return fma(2.0 * g * z, p, 2.0 * g);
}

// A column's contributions divided by the larger of p and q, as functions of s = |ln p - ln q|:
//   KL from the side with the larger probability    phi(s)    = t - 1 + s
//   KL from the other side                          t phi(-s) = 1 - t - s t
//   JSD in nats                                     1/2 (1 + t)/2 f(s)
// with f(s) = (1+r) ln(1+r) + (1-r) ln(1-r), r = tanh(s/2). None is negative. At s = +inf `larger`
// is infinite; the caller replaces it.
struct Divergence {
  double t, u, larger, smaller, js;
};

ASSAY_HD Divergence DivergenceOf(double s) {
  const Decay d = DecayOf(s);
  Divergence out{d.t, d.u, d.phi, 0.0, 0.0};
  const double st = fmin(s, 1000.0) * d.t;
  // Near 0 the plain form cancels: s (1 - t) - phi loses only half.
  out.smaller = s < 0.34375 ? fma(s, d.u, -d.phi) : d.u - st;
  if (s < 1.0) {
    // f(s) / s^2 in z = s^2 on [0, 1]: a Chebyshev interpolant (60 digits), 2.3e-16 relative.
    const double z = s * s;
    double p = -0x1.23a6567619fbbp-32;
    p = fma(p, z, 0x1.0de4b4ababf30p-28);
    p = fma(p, z, -0x1.62aa64657a3bap-25);
    p = fma(p, z, 0x1.b4ed5f225a286p-22);
    p = fma(p, z, -0x1.0a387e236c648p-18);
    p = fma(p, z, 0x1.427a7e4243e37p-15);
    p = fma(p, z, -0x1.82d82d35a7489p-12);
    p = fma(p, z, 0x1.c71c71c65c673p-9);
    p = fma(p, z, -0x1.ffffffffff464p-6);
    p = fma(p, z, 0x1.ffffffffffffep-3);
    out.js = (0.25 * (1.0 + d.t)) * (z * p);
  } else {
    out.js = 0.5 * fma(1.0 + d.t, 0x1.62e42fefa39efp-1 - Log1pSmall(d.t), -st);
  }
  return out;
}

}  // namespace assay::cuda

#endif  // ASSAY_WORKER_REPLAY_CUDA_CORE_H_
