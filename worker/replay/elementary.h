// exp, log1p, phi and the Jensen-Shannon shape on eight doubles. Included by kernels_*.cc only (see
// vec8.h).
//
// Polynomials are Chebyshev interpolants computed with 60 digits; the stated errors are of the
// polynomial with its rounded coefficients, relative, before the few roundings of evaluation.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

// (exp(r) - 1 - r) / r^2 on |r| <= 0.34661: 2.4e-16.
inline constexpr double kExpTail[] = {
    0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,  0x1.11111111109b3p-7,
    0x1.6c16c1788bd90p-10, 0x1.a01a01a7c41d5p-13, 0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19,
    0x1.289185613a3d6p-22, 0x1.af38a9b0ec855p-26};

// f(s) / s^2 in z = s^2 on [0, 1], f as in JsTerm: 2.3e-16.
inline constexpr double kJsdSmall[] = {
    0x1.ffffffffffffep-3,  -0x1.ffffffffff464p-6,  0x1.c71c71c65c673p-9,  -0x1.82d82d35a7489p-12,
    0x1.427a7e4243e37p-15, -0x1.0a387e236c648p-18, 0x1.b4ed5f225a286p-22, -0x1.62aa64657a3bap-25,
    0x1.0de4b4ababf30p-28, -0x1.23a6567619fbbp-32};
// ln(1 + t) / t on [0, 1/e]: 1.1e-16.
inline constexpr double kLog1p[] = {
    0x1.0000000000000p+0, -0x1.ffffffffffc5cp-2, 0x1.555555552cf8ap-2, -0x1.ffffffe9e0f3ep-3,
    0x1.9999966c7d299p-3, -0x1.55550f0e7e1b5p-3, 0x1.248e5380ed70ep-3, -0x1.ffb1d1bd256b7p-4,
    0x1.c4fc1bfc53034p-4, -0x1.8efb273c7df5ep-4, 0x1.4e0c8b4d7c93dp-4, -0x1.e2d8aff0257d3p-5,
    0x1.fc60322dd5f5ep-6, -0x1.157a56d91cd25p-7};

inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // 42 bits: n * kLn2High is exact
inline constexpr double kLn2Low = 0x1.ef35793c76730p-45;
inline constexpr double kShift = 0x1.8p52;  // adding it rounds to an integer
inline constexpr double kExpMin = -708.0;   // below it exp is taken as 0 (true value < 3.4e-308)

// sum c[i] x^i, even and odd powers apart to halve the chain of dependent operations.
template <int N>
inline Vec8 Poly(const double (&c)[N], Vec8 x) {
  const Vec8 x2 = x * x;
  constexpr int kEvenTop = (N - 1) & ~1;
  constexpr int kOddTop = ((N & 1) != 0) ? N - 2 : N - 1;
  Vec8 even = Set(c[kEvenTop]);
  for (int i = kEvenTop - 2; i >= 0; i -= 2) even = Fma(even, x2, Set(c[i]));
  Vec8 odd = Set(c[kOddTop]);
  for (int i = kOddTop - 2; i >= 1; i -= 2) odd = Fma(odd, x2, Set(c[i]));
  return Fma(odd, x, even);
}

// exp(x) as scale * (1 + r + tail) with scale = 2^n.
struct ExpParts {
  Vec8 n, scale, r, tail;
};

// x in [kExpMin, 0].
inline ExpParts SplitExp(Vec8 x) {
  const Vec8 k = Fma(x, Set(kLog2E), Set(kShift));
  const Vec8 n = k - Set(kShift);
  Vec8 r = Fma(n, Set(-kLn2High), x);
  r = Fma(n, Set(-kLn2Low), r);
  return {n, Pow2OfShifted(k), r, (r * r) * Poly(kExpTail, r)};
}

// exp(x) for x in [kExpMin, 0].
inline Vec8 ExpInRange(Vec8 x) {
  const ExpParts e = SplitExp(x);
  return Fma(e.scale, e.r + e.tail, e.scale);
}

// exp(x) for x <= 0 or NaN; 0 below kExpMin and for NaN.
inline Vec8 Exp(Vec8 x) {
  const Vec8 e = ExpInRange(Max(x, Set(kExpMin)));
  return Select(LessEqual(Set(kExpMin), x), e, Set(0.0));
}

// For s >= 0 (or inf, NaN): t = exp(-s), u = 1 - t, and phi = exp(-s) - 1 + s, all to a few ulp.
// Where -s needs no reduction (s < ln2/2) phi is r^2 P(r) itself: no cancellation, and exactly 0 at
// s = 0.
struct Decay {
  Vec8 t, u, phi;
};

inline Decay DecayOf(Vec8 s) {
  const ExpParts e = SplitExp(Max(Set(0.0) - s, Set(kExpMin)));
  const Mask8 unreduced = Equal(e.n, Set(0.0));
  const Mask8 in_range = LessEqual(s, Set(-kExpMin));
  const Vec8 t = Select(in_range, Fma(e.scale, e.r + e.tail, e.scale), Set(0.0));
  const Vec8 far_u = Set(1.0) - t;
  Decay out;
  out.t = t;
  out.phi = Select(unreduced, e.tail, s - far_u);
  out.u = Select(unreduced, s - e.tail, far_u);
  return out;
}

// ln(1 + t) for t in [0, 1/e].
inline Vec8 Log1pSmall(Vec8 t) { return t * Poly(kLog1p, t); }

// tanh(y), any y: -expm1(-2|y|) / (2 + expm1(-2|y|)) with the sign of y.
inline Vec8 Tanh(Vec8 y) {
  const Decay d = DecayOf(Set(2.0) * Abs(y));
  return CopySign(d.u / (Set(2.0) - d.u), y);
}

inline Vec8 SoftcapOf(Vec8 x, Vec8 cap) { return cap * Tanh(x / cap); }

// One column's contributions, divided by the larger of p and q, as functions of s = |ln p - ln q|:
//   to KL from the side with the larger probability    phi(s)          = t - 1 + s
//   to KL from the other side                          t phi(-s)       = 1 - t - s t
//   to JSD (nats)                                      1/2 (1 + t)/2 f(s)
// with t = exp(-s), u = 1 - t, f(s) = (1+r) ln(1+r) + (1-r) ln(1-r), r = tanh(s/2). Each is >= 0.
// `s` may be +inf (one probability is 0: t = 0) or NaN (both are: the caller multiplies by 0); no
// result is then infinite except `larger`, which the caller replaces.
struct Divergence {
  Vec8 t, u, larger, smaller, js;
};

inline Divergence DivergenceOf(Vec8 s) {
  const Decay d = DecayOf(s);
  const Vec8 st = Min(s, Set(1000.0)) * d.t;
  // For small s: 1 - t - s t = s (1 - t) - phi, two terms of like size, of which half remains.
  const Mask8 near = Less(s, Set(0.34375));
  Divergence out;
  out.t = d.t;
  out.u = d.u;
  out.larger = d.phi;
  out.smaller = Select(near, Fma(s, d.u, Set(0.0) - d.phi), d.u - st);
  const Vec8 one_plus_t = Set(1.0) + d.t;
  const Mask8 small = Less(s, Set(1.0));
  const Vec8 z = Min(s, Set(1.0)) * Min(s, Set(1.0));
  const Vec8 series = (Set(0.25) * one_plus_t) * (z * Poly(kJsdSmall, z));
  if (small == 0xff) {
    out.js = series;
  } else {
    const Vec8 log = Log1pSmall(Min(d.t, Set(0.3678794411714424)));
    const Vec8 far = Set(0.5) * Fma(one_plus_t, Set(kLn2) - log, Set(0.0) - st);
    out.js = Select(small, series, far);
  }
  return out;
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
