// Two Vec8 side by side: the same operations on each, written next to each other so that the
// processor finds two independent chains of them. A kernel's long chains leave it half idle
// otherwise.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

struct Vec16 {
  Vec8 a, b;
};
struct Mask16 {
  Mask8 a, b;
};

template <>
inline Vec16 Set<Vec16>(double x) {
  return {Set(x), Set(x)};
}
template <typename T>
inline Vec16 Load16(const T* p) {
  return {Load(p), Load(p + 8)};
}
inline Vec16 operator+(Vec16 x, Vec16 y) { return {x.a + y.a, x.b + y.b}; }
inline Vec16 operator-(Vec16 x, Vec16 y) { return {x.a - y.a, x.b - y.b}; }
inline Vec16 operator-(Vec16 x, Vec8 y) { return {x.a - y, x.b - y}; }
inline Vec16 operator*(Vec16 x, Vec16 y) { return {x.a * y.a, x.b * y.b}; }
inline Vec16 Fma(Vec16 x, Vec16 y, Vec16 z) { return {Fma(x.a, y.a, z.a), Fma(x.b, y.b, z.b)}; }
inline Vec16 FmaSub(Vec16 x, Vec16 y, Vec16 z) {
  return {FmaSub(x.a, y.a, z.a), FmaSub(x.b, y.b, z.b)};
}
inline Vec16 Min(Vec16 x, Vec16 y) { return {Min(x.a, y.a), Min(x.b, y.b)}; }
inline Vec16 Max(Vec16 x, Vec16 y) { return {Max(x.a, y.a), Max(x.b, y.b)}; }
inline Vec16 Abs(Vec16 x) { return {Abs(x.a), Abs(x.b)}; }
inline Mask16 Less(Vec16 x, Vec16 y) { return {Less(x.a, y.a), Less(x.b, y.b)}; }
inline Mask16 LessEqual(Vec16 x, Vec16 y) { return {LessEqual(x.a, y.a), LessEqual(x.b, y.b)}; }
inline Mask16 Equal(Vec16 x, Vec16 y) { return {Equal(x.a, y.a), Equal(x.b, y.b)}; }
inline Vec16 Select(Mask16 m, Vec16 yes, Vec16 no) {
  return {Select(m.a, yes.a, no.a), Select(m.b, yes.b, no.b)};
}
inline Vec16 Pow2OfShifted(Vec16 k) { return {Pow2OfShifted(k.a), Pow2OfShifted(k.b)}; }
inline Vec16 Pow2OfSixteenths(Vec16 k) { return {Pow2OfSixteenths(k.a), Pow2OfSixteenths(k.b)}; }
inline bool AllOf(Mask16 m) { return (m.a & m.b) == 0xff; }

}  // namespace assay::ASSAY_VEC_NAMESPACE
