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

// (exp(r) - 1 - r) / r^2 on |r| <= ln2/32: 1.2e-13, of a part that is below 2.4e-4 of exp(r).
inline constexpr double kExpTailSixteenth[] = {0x1.0000000000000p-1, 0x1.55555554dd44dp-3,
                                               0x1.55555555194d2p-5, 0x1.11120af701debp-7,
                                               0x1.6c17bb51f236dp-10};
// f(s) / s^2 in z = s^2 on [0, 1], f as in JensenShannon4: 2.3e-16.
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
inline constexpr double kShift = 0x1.8p52;            // adding it rounds to an integer
inline constexpr double kShiftSixteenths = 0x1.8p48;  // adding it rounds to a multiple of 1/16
inline constexpr double kExpMin = -708.0;  // below it exp is taken as 0 (true value < 3.4e-308)

// sum c[i] x^i, even and odd powers apart to halve the chain of dependent operations; x2 = x^2.
template <typename V, int N>
inline V Poly(const double (&c)[N], V x, V x2) {
  constexpr int kEvenTop = (N - 1) & ~1;
  constexpr int kOddTop = ((N & 1) != 0) ? N - 2 : N - 1;
  V even = Set<V>(c[kEvenTop]);
  for (int i = kEvenTop - 2; i >= 0; i -= 2) even = Fma(even, x2, Set<V>(c[i]));
  V odd = Set<V>(c[kOddTop]);
  for (int i = kOddTop - 2; i >= 1; i -= 2) odd = Fma(odd, x2, Set<V>(c[i]));
  return Fma(odd, x, even);
}
template <typename V, int N>
inline V Poly(const double (&c)[N], V x) {
  return Poly(c, x, x * x);
}

// exp(x) as scale * (1 + r + tail) with scale = 2^n.
template <typename V>
struct ExpParts {
  V n, scale, r, tail;
};

// x in [kExpMin, 0].
template <typename V>
inline ExpParts<V> SplitExp(V x) {
  const V k = Fma(x, Set<V>(kLog2E), Set<V>(kShift));
  const V n = k - Set<V>(kShift);
  V r = Fma(n, Set<V>(-kLn2High), x);
  r = Fma(n, Set<V>(-kLn2Low), r);
  return {n, Pow2OfShifted(k), r, (r * r) * Poly(kExpTail, r)};
}

// exp(r) 2^n for n, r of x as in ExpInRange; k = n + kShiftSixteenths.
template <typename V>
inline V ExpOfParts(V k, V r) {
  const V power = Pow2OfSixteenths(k);
  return Fma(power, Fma(r * r, Poly(kExpTailSixteenth, r), r), power);
}

// exp(x) for x in [kExpMin, 0], by the nearest power of 2^(1/16).
template <typename V>
inline V ExpInRange(V x) {
  const V k = Fma(x, Set<V>(kLog2E), Set<V>(kShiftSixteenths));
  const V n = k - Set<V>(kShiftSixteenths);
  return ExpOfParts(k, Fma(n, Set<V>(-kLn2Low), Fma(n, Set<V>(-kLn2High), x)));
}

// The same for the terms of sums, where a term far below the largest may be less exact: ln 2 is
// rounded to one number, which adds 3.4e-17 |x|, relative. Of the largest term that is never more
// than 1.3e-17.
template <typename V>
inline V ExpOfTerm(V x) {
  const V k = Fma(x, Set<V>(kLog2E), Set<V>(kShiftSixteenths));
  const V n = k - Set<V>(kShiftSixteenths);
  return ExpOfParts(k, Fma(n, Set<V>(-kLn2), x));
}

// exp(x) for x <= 0 or NaN; 0 below kExpMin and for NaN.
inline Vec8 Exp(Vec8 x) {
  const Vec8 e = ExpInRange(Max(x, Set(kExpMin)));
  return Select(LessEqual(Set(kExpMin), x), e, Set(0.0));
}

// For s >= 0 (or inf, NaN): t = exp(-s), u = 1 - t, and phi = exp(-s) - 1 + s, all to a few ulp.
// Where -s needs no reduction (s < ln2/2) phi is r^2 P(r) itself: no cancellation, and exactly 0 at
// s = 0.
template <typename V>
struct Decay {
  V t, u, phi;
};

// s in [0, -kExpMin].
template <typename V>
inline Decay<V> DecayInRange(V s) {
  const ExpParts<V> e = SplitExp(Set<V>(0.0) - s);
  Decay<V> out;
  out.t = Fma(e.scale, e.r + e.tail, e.scale);
  const V far_u = Set<V>(1.0) - out.t;
  const auto unreduced = Equal(e.n, Set<V>(0.0));
  out.u = Select(unreduced, s - e.tail, far_u);
  out.phi = Select(unreduced, e.tail, s - far_u);
  return out;
}

inline Decay<Vec8> DecayOf(Vec8 s) {
  Decay<Vec8> out = DecayInRange(Min(s, Set(-kExpMin)));
  const Mask8 in_range = LessEqual(s, Set(-kExpMin));
  out.t = Select(in_range, out.t, Set(0.0));
  out.u = Select(in_range, out.u, Set(1.0));
  out.phi = Select(in_range, out.phi, s - Set(1.0));
  return out;
}

// ln(1 + t) for t in [0, 1/e].
template <typename V>
inline V Log1pSmall(V t) {
  return t * Poly(kLog1p, t);
}

// tanh(y), any y: -expm1(-2|y|) / (2 + expm1(-2|y|)) with the sign of y.
inline Vec8 Tanh(Vec8 y) {
  const Decay<Vec8> d = DecayOf(Set(2.0) * Abs(y));
  return CopySign(d.u / (Set(2.0) - d.u), y);
}

inline Vec8 SoftcapOf(Vec8 x, Vec8 cap) { return cap * Tanh(x / cap); }

// One column's contributions, divided by the larger of p and q, as functions of s = |ln p - ln q|:
//   to KL from the side with the larger probability    phi(s)          = t - 1 + s
//   to KL from the other side                          t phi(-s)       = 1 - t - s t = s u - phi(s)
//   to JSD (nats), times 4                             (1 + t) f(s)
// with t = exp(-s), u = 1 - t, f(s) = (1+r) ln(1+r) + (1-r) ln(1-r), r = tanh(s/2). Each is >= 0.
template <typename V>
struct Divergence {
  V t, u, larger, smaller, js4;
};

// (1 + t) f(s), any s >= 0 or NaN; st = s t, 0 where s is infinite.
template <typename V>
inline V JensenShannon4(V s, V t, V st) {
  const V one_plus_t = Set<V>(1.0) + t;
  const auto small = Less(s, Set<V>(1.0));
  const V z = Min(s, Set<V>(1.0)) * Min(s, Set<V>(1.0));
  const V series = one_plus_t * (z * Poly(kJsdSmall, z));
  if (AllOf(small)) return series;
  const V log = Log1pSmall(Min(t, Set<V>(0.3678794411714424)));
  const V far = Set<V>(2.0) * FmaSub(one_plus_t, Set<V>(kLn2) - log, st);
  return Select(small, series, far);
}

// Every s in [0, -kExpMin].
template <typename V>
inline Divergence<V> DivergenceInRange(V s) {
  const Decay<V> d = DecayInRange(s);
  return {d.t, d.u, d.phi, FmaSub(s, d.u, d.phi), JensenShannon4(s, d.t, s * d.t)};
}

// Any s >= 0, +inf (one probability is 0) or NaN (both are: the caller multiplies by 0). No result
// is then infinite except `larger`, which the caller replaces.
inline Divergence<Vec8> DivergenceAny(Vec8 s) {
  const Decay<Vec8> d = DecayOf(s);
  const Vec8 st = Min(s, Set(1000.0)) * d.t;
  const Vec8 smaller = Select(Less(s, Set(32.0)), FmaSub(s, d.u, d.phi), d.u - st);
  return {d.t, d.u, d.phi, smaller, JensenShannon4(s, d.t, st)};
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
