// Eight doubles at a time, the only arithmetic of the metric passes.
//
// Every operation is one IEEE operation per lane (or exact), and there are eight lanes on every
// machine, so the same source gives the same bits with AVX-512, with AVX2 and without either. This
// header is included by one file per instruction set, compiled with that set's flags; each puts it
// in a namespace of its own (ASSAY_VEC_NAMESPACE), and no standard library header may be included
// here: an inline function compiled for AVX-512 could be the copy that the linker keeps for
// everybody.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

#include <stdint.h>

#if defined(__AVX512DQ__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

inline constexpr double kInfinity = __builtin_inf();

// 2^(j/16), each with j << 48 taken off its bits: adding (16 n) << 48 for any n = e + j/16 then
// gives 2^n, since j << 48 comes back and e lands in the exponent.
alignas(64) inline constexpr int64_t kPow2Sixteenths[16] = {
    0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
    0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
    0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
    0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};

#ifdef __AVX512DQ__

using Mask8 = __mmask8;
struct Vec8 {
  __m512d v;
};

inline Vec8 Set(double x) { return {_mm512_set1_pd(x)}; }
inline Vec8 Load(const double* p) { return {_mm512_loadu_pd(p)}; }
inline Vec8 Load(const float* p) { return {_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }
inline void Store(double* p, Vec8 a) { _mm512_storeu_pd(p, a.v); }
inline Vec8 operator+(Vec8 a, Vec8 b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec8 operator-(Vec8 a, Vec8 b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Vec8 operator*(Vec8 a, Vec8 b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec8 operator/(Vec8 a, Vec8 b) { return {_mm512_div_pd(a.v, b.v)}; }
inline Vec8 Fma(Vec8 a, Vec8 b, Vec8 c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec8 FmaSub(Vec8 a, Vec8 b, Vec8 c) { return {_mm512_fmsub_pd(a.v, b.v, c.v)}; }
// a < b ? a : b, and b when either is NaN.
inline Vec8 Min(Vec8 a, Vec8 b) { return {_mm512_min_pd(a.v, b.v)}; }
inline Vec8 Max(Vec8 a, Vec8 b) { return {_mm512_max_pd(a.v, b.v)}; }
inline Vec8 Abs(Vec8 a) { return {_mm512_abs_pd(a.v)}; }
// |a| with the sign of s.
inline Vec8 CopySign(Vec8 a, Vec8 s) {
  return {_mm512_castsi512_pd(_mm512_ternarylogic_epi64(
      _mm512_set1_epi64(INT64_MIN), _mm512_castpd_si512(s.v), _mm512_castpd_si512(a.v), 0xca))};
}
inline Mask8 Less(Vec8 a, Vec8 b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ); }
inline Mask8 LessEqual(Vec8 a, Vec8 b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_LE_OQ); }
inline Mask8 Equal(Vec8 a, Vec8 b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ); }
inline Vec8 Select(Mask8 m, Vec8 yes, Vec8 no) { return {_mm512_mask_blend_pd(m, no.v, yes.v)}; }
// 2^n for k = n + 1.5 * 2^52, -1022 <= n <= 1023.
inline Vec8 Pow2OfShifted(Vec8 k) {
  const __m512i bits = _mm512_add_epi64(_mm512_castpd_si512(k.v), _mm512_set1_epi64(1023));
  return {_mm512_castsi512_pd(_mm512_slli_epi64(bits, 52))};
}

// 2^n, rounded once, for k = n + 1.5 * 2^48, n a multiple of 1/16 from -1022 on up to 1023.
inline Vec8 Pow2OfSixteenths(Vec8 k) {
  const __m512i bits = _mm512_castpd_si512(k.v);
  const __m512i table = _mm512_permutex2var_epi64(_mm512_load_si512(kPow2Sixteenths), bits,
                                                  _mm512_load_si512(kPow2Sixteenths + 8));
  return {_mm512_castsi512_pd(_mm512_add_epi64(table, _mm512_slli_epi64(bits, 48)))};
}

#elif defined(__AVX2__) && defined(__FMA__)

using Mask8 = uint8_t;
struct Vec8 {
  __m256d lo, hi;
};

inline Vec8 Set(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
inline Vec8 Load(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
inline Vec8 Load(const float* p) {
  return {_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
}
inline void Store(double* p, Vec8 a) {
  _mm256_storeu_pd(p, a.lo);
  _mm256_storeu_pd(p + 4, a.hi);
}
inline Vec8 operator+(Vec8 a, Vec8 b) {
  return {_mm256_add_pd(a.lo, b.lo), _mm256_add_pd(a.hi, b.hi)};
}
inline Vec8 operator-(Vec8 a, Vec8 b) {
  return {_mm256_sub_pd(a.lo, b.lo), _mm256_sub_pd(a.hi, b.hi)};
}
inline Vec8 operator*(Vec8 a, Vec8 b) {
  return {_mm256_mul_pd(a.lo, b.lo), _mm256_mul_pd(a.hi, b.hi)};
}
inline Vec8 operator/(Vec8 a, Vec8 b) {
  return {_mm256_div_pd(a.lo, b.lo), _mm256_div_pd(a.hi, b.hi)};
}
inline Vec8 Fma(Vec8 a, Vec8 b, Vec8 c) {
  return {_mm256_fmadd_pd(a.lo, b.lo, c.lo), _mm256_fmadd_pd(a.hi, b.hi, c.hi)};
}
inline Vec8 FmaSub(Vec8 a, Vec8 b, Vec8 c) {
  return {_mm256_fmsub_pd(a.lo, b.lo, c.lo), _mm256_fmsub_pd(a.hi, b.hi, c.hi)};
}
// a < b ? a : b, and b when either is NaN.
inline Vec8 Min(Vec8 a, Vec8 b) { return {_mm256_min_pd(a.lo, b.lo), _mm256_min_pd(a.hi, b.hi)}; }
inline Vec8 Max(Vec8 a, Vec8 b) { return {_mm256_max_pd(a.lo, b.lo), _mm256_max_pd(a.hi, b.hi)}; }
inline Vec8 Abs(Vec8 a) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  return {_mm256_andnot_pd(sign, a.lo), _mm256_andnot_pd(sign, a.hi)};
}
// |a| with the sign of s.
inline Vec8 CopySign(Vec8 a, Vec8 s) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  return {_mm256_or_pd(_mm256_andnot_pd(sign, a.lo), _mm256_and_pd(sign, s.lo)),
          _mm256_or_pd(_mm256_andnot_pd(sign, a.hi), _mm256_and_pd(sign, s.hi))};
}
inline Mask8 Bits(__m256d lo, __m256d hi) {
  return static_cast<Mask8>(_mm256_movemask_pd(lo) | _mm256_movemask_pd(hi) << 4);
}
inline Mask8 Less(Vec8 a, Vec8 b) {
  return Bits(_mm256_cmp_pd(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_pd(a.hi, b.hi, _CMP_LT_OQ));
}
inline Mask8 LessEqual(Vec8 a, Vec8 b) {
  return Bits(_mm256_cmp_pd(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_pd(a.hi, b.hi, _CMP_LE_OQ));
}
inline Mask8 Equal(Vec8 a, Vec8 b) {
  return Bits(_mm256_cmp_pd(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_pd(a.hi, b.hi, _CMP_EQ_OQ));
}
inline Vec8 Select(Mask8 m, Vec8 yes, Vec8 no) {
  const __m256i bits = _mm256_set1_epi64x(m);
  const __m256i low = _mm256_set_epi64x(8, 4, 2, 1), high = _mm256_set_epi64x(128, 64, 32, 16);
  const __m256i lo = _mm256_cmpeq_epi64(_mm256_and_si256(bits, low), low);
  const __m256i hi = _mm256_cmpeq_epi64(_mm256_and_si256(bits, high), high);
  return {_mm256_blendv_pd(no.lo, yes.lo, _mm256_castsi256_pd(lo)),
          _mm256_blendv_pd(no.hi, yes.hi, _mm256_castsi256_pd(hi))};
}
// 2^n for k = n + 1.5 * 2^52, -1022 <= n <= 1023.
inline Vec8 Pow2OfShifted(Vec8 k) {
  const __m256i bias = _mm256_set1_epi64x(1023);
  const __m256i lo = _mm256_add_epi64(_mm256_castpd_si256(k.lo), bias);
  const __m256i hi = _mm256_add_epi64(_mm256_castpd_si256(k.hi), bias);
  return {_mm256_castsi256_pd(_mm256_slli_epi64(lo, 52)),
          _mm256_castsi256_pd(_mm256_slli_epi64(hi, 52))};
}

inline __m256d Pow2OfSixteenths(__m256d k) {
  const __m256i bits = _mm256_castpd_si256(k);
  const __m256i index = _mm256_and_si256(bits, _mm256_set1_epi64x(15));
  const auto* const table = reinterpret_cast<const long long*>(kPow2Sixteenths);
  const __m256i looked_up = _mm256_i64gather_epi64(table, index, 8);
  return _mm256_castsi256_pd(_mm256_add_epi64(looked_up, _mm256_slli_epi64(bits, 48)));
}
// 2^n, rounded once, for k = n + 1.5 * 2^48, n a multiple of 1/16 from -1022 on up to 1023.
inline Vec8 Pow2OfSixteenths(Vec8 k) { return {Pow2OfSixteenths(k.lo), Pow2OfSixteenths(k.hi)}; }

#else

using Mask8 = uint8_t;
struct Vec8 {
  double v[8];
};

#define ASSAY_LANES(expression)                        \
  Vec8 out;                                            \
  for (int i = 0; i < 8; ++i) out.v[i] = (expression); \
  return out
#define ASSAY_LANE_MASK(expression)                                          \
  unsigned out = 0;                                                          \
  for (int i = 0; i < 8; ++i) out |= static_cast<unsigned>(expression) << i; \
  return static_cast<Mask8>(out)

inline Vec8 Set(double x) { ASSAY_LANES(x); }
inline Vec8 Load(const double* p) { ASSAY_LANES(p[i]); }
inline Vec8 Load(const float* p) { ASSAY_LANES(static_cast<double>(p[i])); }
inline void Store(double* p, Vec8 a) {
  for (int i = 0; i < 8; ++i) p[i] = a.v[i];
}
inline Vec8 operator+(Vec8 a, Vec8 b) { ASSAY_LANES(a.v[i] + b.v[i]); }
inline Vec8 operator-(Vec8 a, Vec8 b) { ASSAY_LANES(a.v[i] - b.v[i]); }
inline Vec8 operator*(Vec8 a, Vec8 b) { ASSAY_LANES(a.v[i] * b.v[i]); }
inline Vec8 operator/(Vec8 a, Vec8 b) { ASSAY_LANES(a.v[i] / b.v[i]); }
inline Vec8 Fma(Vec8 a, Vec8 b, Vec8 c) { ASSAY_LANES(__builtin_fma(a.v[i], b.v[i], c.v[i])); }
inline Vec8 FmaSub(Vec8 a, Vec8 b, Vec8 c) { ASSAY_LANES(__builtin_fma(a.v[i], b.v[i], -c.v[i])); }
// a < b ? a : b, and b when either is NaN.
inline Vec8 Min(Vec8 a, Vec8 b) { ASSAY_LANES(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
inline Vec8 Max(Vec8 a, Vec8 b) { ASSAY_LANES(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
inline Vec8 Abs(Vec8 a) { ASSAY_LANES(__builtin_fabs(a.v[i])); }
// |a| with the sign of s.
inline Vec8 CopySign(Vec8 a, Vec8 s) { ASSAY_LANES(__builtin_copysign(a.v[i], s.v[i])); }
inline Mask8 Less(Vec8 a, Vec8 b) { ASSAY_LANE_MASK(a.v[i] < b.v[i]); }
inline Mask8 LessEqual(Vec8 a, Vec8 b) { ASSAY_LANE_MASK(a.v[i] <= b.v[i]); }
inline Mask8 Equal(Vec8 a, Vec8 b) { ASSAY_LANE_MASK(a.v[i] == b.v[i]); }
inline Vec8 Select(Mask8 m, Vec8 yes, Vec8 no) { ASSAY_LANES((m >> i & 1) ? yes.v[i] : no.v[i]); }
// 2^n for k = n + 1.5 * 2^52, -1022 <= n <= 1023.
inline Vec8 Pow2OfShifted(Vec8 k) {
  Vec8 out;
  for (int i = 0; i < 8; ++i) {
    uint64_t bits;
    __builtin_memcpy(&bits, &k.v[i], 8);
    bits = (bits + 1023) << 52;
    __builtin_memcpy(&out.v[i], &bits, 8);
  }
  return out;
}

// 2^n, rounded once, for k = n + 1.5 * 2^48, n a multiple of 1/16 from -1022 on up to 1023.
inline Vec8 Pow2OfSixteenths(Vec8 k) {
  Vec8 out;
  for (int i = 0; i < 8; ++i) {
    uint64_t bits;
    __builtin_memcpy(&bits, &k.v[i], 8);
    bits = static_cast<uint64_t>(kPow2Sixteenths[bits & 15]) + (bits << 48);
    __builtin_memcpy(&out.v[i], &bits, 8);
  }
  return out;
}

#undef ASSAY_LANES
#undef ASSAY_LANE_MASK

#endif

template <typename V>
inline V Set(double x);
template <>
inline Vec8 Set<Vec8>(double x) {
  return Set(x);
}
inline bool AllOf(Mask8 m) { return m == 0xff; }

// Lanes added in a fixed tree.
inline double SumLanes(Vec8 a) {
  double x[8];
  Store(x, a);
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

inline double MaxLanes(Vec8 a) {
  double x[8];
  Store(x, a);
  double best = x[0];
  for (int i = 1; i < 8; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// Eight columns from p, or the first n of them with -infinity after (0 < n < 8).
template <typename T>
inline Vec8 LoadFirst(const T* p, int n) {
  double x[8];
  for (int i = 0; i < 8; ++i) x[i] = i < n ? static_cast<double>(p[i]) : -kInfinity;
  return Load(x);
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
