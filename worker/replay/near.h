// Divergences of columns whose probabilities are close to each other, by their geometric mean.
//
// With h = (ln p - ln q) / 2 and g = sqrt(p q), p = g exp(h) and q = g exp(-h), so that
//   p ln(p/q) + q - p  =  2 g h sinh h + 2 g (h cosh h - sinh h)
//   q ln(q/p) + p - q  =  2 g h sinh h - 2 g (h cosh h - sinh h)
//   |p - q|            =  2 g |sinh h|          min(p, q) = g (cosh h - |sinh h|)
//   and what the column adds to JSD (nats) is g cosh(h) f / 2, f as in JensenShannon4.
// sinh, h cosh h - sinh h and cosh f are h, h^3 and h^2 times polynomials in w = h^2: one exp for
// all, nothing cancels, and exchanging p and q changes the sign of h alone.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

// Chebyshev interpolants computed with 60 digits; relative errors of the polynomials as in
// elementary.h. kShape is (cosh(h) f / w - 1) / w^2.
struct NearHalf {  // w in [0, 1/4]: |ln p - ln q| <= 1
  static constexpr double kLimit = 0.25;
  static constexpr double kSinh[] = {0x1.0000000000000p+0,  0x1.555555555561dp-3,
                                     0x1.11111110ecbaep-7,  0x1.a01a023b1c5b9p-13,
                                     0x1.71dd0f7d0a2b7p-19, 0x1.b0773c2e5ebe2p-26};  // 3.9e-17
  static constexpr double kSkew[] = {0x1.5555555555555p-2,  0x1.1111111111146p-5,
                                     0x1.3813813800221p-10, 0x1.71de3aa8102d1p-16,
                                     0x1.0cfe16bb6bc2fp-22, 0x1.09f65b0bdd978p-29};  // 5.6e-17
  static constexpr double kShape[] = {
      0x1.c71c71c71ae4fp-7,  -0x1.6c16c16295f9dp-9,  0x1.8006e5d28b4f9p-11, -0x1.aeba648751e1ep-13,
      0x1.fe049f7eaed5dp-15, -0x1.3391beb0ec7c0p-16, 0x1.3114517363dfdp-18};  // 6.4e-16
};
struct NearOne {  // w in [0, 1]: |ln p - ln q| <= 2
  static constexpr double kLimit = 1.0;
  static constexpr double kSinh[] = {
      0x1.0000000000000p+0,  0x1.5555555555407p-3,  0x1.1111111125edbp-7, 0x1.a01a0180d218ap-13,
      0x1.71de50a983cefp-19, 0x1.ae53fbcbba646p-26, 0x1.6712f2e298972p-33};  // 1.9e-16
  static constexpr double kSkew[] = {
      0x1.5555555555555p-2,  0x1.11111111110c3p-5,  0x1.381381381d4f2p-10, 0x1.71de3a46b8e06p-16,
      0x1.0cfec08e3afd1p-22, 0x1.08d398db576a4p-29, 0x1.7e43673a76794p-37};  // 8.8e-17
  static constexpr double kShape[] = {
      0x1.c71c71c71c1ecp-7,  -0x1.6c16c16adc603p-9,  0x1.8006ee97fbca3p-11, -0x1.aebdcfd618ecap-13,
      0x1.fea5f34fbadc4p-15, -0x1.3b3ae0ec4a451p-16, 0x1.8f8857c66e2fcp-18, -0x1.f785b6d8afaf2p-20,
      0x1.221ab0b92e984p-21, -0x1.006c47d9df8bap-23, 0x1.e4c3c8b3ed178p-27};  // 1.7e-15
};

// Sums over columns, in units of g.
struct NearLanes {
  Vec8 mean;   // cosh h
  Vec8 apart;  // |sinh h|
  Vec8 both;   // h sinh h
  Vec8 skew;   // h cosh h - sinh h
  Vec8 shape;  // cosh(h) f

  static NearLanes Zero() {
    const Vec8 zero = Set(0.0);
    return {zero, zero, zero, zero, zero};
  }
  void Add(const NearLanes& o) {
    mean = mean + o.mean;
    apart = apart + o.apart;
    both = both + o.both;
    skew = skew + o.skew;
    shape = shape + o.shape;
  }
};

// Adds sixteen columns with w = h^2 <= Range::kLimit.
template <typename Range>
inline void AddNear(Vec16 g, Vec16 h, Vec16 w, NearLanes* sums) {
  const Vec16 w2 = w * w;
  const Vec16 sinh = Poly(Range::kSinh, w, w2), skew = Poly(Range::kSkew, w, w2);
  const Vec16 shape = Fma(w2, Poly(Range::kShape, w, w2), Set<Vec16>(1.0));
  const Vec16 cosh = Fma(w, skew, sinh);
  const Vec16 gh = g * h;
  const Vec16 apart = gh * sinh, gw = gh * h;
  const Vec16 gwh = gw * h, distance = Abs(apart);
  NearLanes s = *sums;
  s.mean = Fma(g.b, cosh.b, Fma(g.a, cosh.a, s.mean));
  s.apart = (s.apart + distance.a) + distance.b;
  s.both = Fma(apart.b, h.b, Fma(apart.a, h.a, s.both));
  s.skew = Fma(gwh.b, skew.b, Fma(gwh.a, skew.a, s.skew));
  s.shape = Fma(gw.b, shape.b, Fma(gw.a, shape.a, s.shape));
  *sums = s;
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
