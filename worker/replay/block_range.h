// Largest and smallest logit of a block of columns, without widening them.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

struct Range {
  double min, max;
  bool bad;  // NaN or +inf among the columns; min and max mean nothing then
};

// Numbers without the sign bit are ordered like their bits, those with it the other way round, so
// three integer extrema tell the rest.
struct BitExtrema {
  int32_t top;         // of the bits as signed numbers
  uint32_t high, low;  // as unsigned numbers

  void Take(uint32_t bits) {
    top = static_cast<int32_t>(bits) > top ? static_cast<int32_t>(bits) : top;
    high = bits > high ? bits : high;
    low = bits < low ? bits : low;
  }
};

inline BitExtrema ExtremaOf(const float* x, int64_t n) {
  using Signed __attribute__((vector_size(64))) = int32_t;
  using Unsigned __attribute__((vector_size(64))) = uint32_t;
  BitExtrema out = {INT32_MIN, 0, UINT32_MAX};
  if (n < 16) {
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits;
      __builtin_memcpy(&bits, x + i, 4);
      out.Take(bits);
    }
    return out;
  }
  Signed top;
  __builtin_memcpy(&top, x, 64);
  Unsigned high = reinterpret_cast<Unsigned&>(top), low = high;
  for (int64_t at = 16; at < n; at += 16) {
    Signed bits;
    __builtin_memcpy(&bits, x + (at < n - 16 ? at : n - 16), 64);  // the last may overlap
    const Unsigned same = reinterpret_cast<Unsigned&>(bits);
    top = bits > top ? bits : top;
    high = same > high ? same : high;
    low = same < low ? same : low;
  }
#define ASSAY_FOLD(...)                                                  \
  {                                                                      \
    const Signed t = __builtin_shufflevector(top, top, __VA_ARGS__);     \
    const Unsigned h = __builtin_shufflevector(high, high, __VA_ARGS__); \
    const Unsigned l = __builtin_shufflevector(low, low, __VA_ARGS__);   \
    top = t > top ? t : top;                                             \
    high = h > high ? h : high;                                          \
    low = l < low ? l : low;                                             \
  }
  ASSAY_FOLD(8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15)
  ASSAY_FOLD(4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7)
  ASSAY_FOLD(2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3)
  ASSAY_FOLD(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
#undef ASSAY_FOLD
  return {top[0], high[0], low[0]};
}

inline Range RangeOf(const float* x, int64_t n) {
  constexpr uint32_t kSign = 0x80000000u, kInfinite = 0x7f800000u;
  const BitExtrema e = ExtremaOf(x, n);
  const uint32_t max = e.top >= 0 ? static_cast<uint32_t>(e.top) : e.low;
  const uint32_t min = e.high >= kSign ? e.high : e.low;
  float values[2];
  __builtin_memcpy(&values[0], &min, 4);
  __builtin_memcpy(&values[1], &max, 4);
  return {values[0], values[1],
          e.top >= static_cast<int32_t>(kInfinite) || e.high > (kSign | kInfinite)};
}

// (No lane beyond the last column counts: the same logits must take the same way as in fp32.)
inline Range RangeOf(const double* x, int64_t n) {
  Vec8 most = Set(-kInfinity), least = most;  // least: of the negated values
  Mask8 good = 0xff;
  double first[8] = {};
  if (n < 8) {
    for (int64_t i = 0; i < 8; ++i) first[i] = x[i < n ? i : 0];
  }
  for (int64_t at = 0; at < n; at += 8) {
    const Vec8 v = n < 8 ? Load(first) : Load(x + (n - at >= 8 ? at : n - 8));
    good = static_cast<Mask8>(good & Less(v, Set(kInfinity)));
    most = Max(v, most);
    least = Max(Set(0.0) - v, least);
  }
  return {0.0 - MaxLanes(least), MaxLanes(most), good != 0xff};
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
