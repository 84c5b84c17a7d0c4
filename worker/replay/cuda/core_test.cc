// The GPU's elementary functions against long double: gaps of every size.

#include "worker/replay/cuda/core.h"

#include <cmath>

#include "gtest/gtest.h"

namespace assay::cuda {
namespace {

// Arguments from 1e-18 to 708, with significands that have no pattern.
template <typename Body>
void ForMagnitudes(const Body& body) {
  uint64_t state = 9;
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double mantissa = 1.0 + static_cast<double>(state >> 12) * 0x1p-52;
    const double x = std::ldexp(mantissa, static_cast<int>(i % 69) - 60);
    if (x < 707) body(x);
  }
}

double Relative(double got, long double want) {
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / std::fabs(want));
}

TEST(CudaCore, ExpIsWithinUlps) {
  double worst = 0;
  ForMagnitudes([&](double x) { worst = std::max(worst, Relative(CoreExp(-x), expl(-x))); });
  EXPECT_LE(worst, 1.5 * 0x1p-52) << worst;
  EXPECT_EQ(CoreExp(0.0), 1.0);
  EXPECT_EQ(CoreExp(-709.0), 0.0);
  EXPECT_EQ(CoreExp(-Infinity()), 0.0);
  EXPECT_EQ(CoreExp(std::nan("")), 0.0);
}

TEST(CudaCore, DecayKeepsItsDigits) {
  double t = 0, u = 0, phi = 0;
  ForMagnitudes([&](double s) {
    const Decay d = DecayOf(s);
    const long double x = s;
    t = std::max(t, Relative(d.t, expl(-x)));
    u = std::max(u, Relative(d.u, -expm1l(-x)));
    // exp(-s) - 1 + s cancels in long double as well below 1e-3: the series there.
    long double want = expm1l(-x) + x;
    if (s < 1e-2) {
      want = x * x *
             (1 / 2.0L -
              x * (1 / 6.0L -
                   x * (1 / 24.0L -
                        x * (1 / 120.0L - x * (1 / 720.0L - x * (1 / 5040.0L - x / 40320.0L))))));
    }
    phi = std::max(phi, Relative(d.phi, want));
  });
  EXPECT_LE(t, 2 * 0x1p-52) << t;
  EXPECT_LE(u, 3 * 0x1p-52) << u;
  EXPECT_LE(phi, 8 * 0x1p-52) << phi;
  const Decay zero = DecayOf(0.0), infinite = DecayOf(Infinity());
  EXPECT_EQ(zero.t, 1.0);
  EXPECT_EQ(zero.u, 0.0);
  EXPECT_EQ(zero.phi, 0.0);
  EXPECT_EQ(infinite.t, 0.0);
  EXPECT_EQ(infinite.u, 1.0);
}

TEST(CudaCore, DivergencesKeepTheirDigits) {
  double smaller = 0, js = 0;
  ForMagnitudes([&](double s) {
    const long double x = s, t = expl(-x);
    const Divergence d = DivergenceOf(s);
    EXPECT_GE(d.larger, 0.0);
    EXPECT_GE(d.smaller, 0.0);
    EXPECT_GE(d.js, 0.0);
    // 1 - t - s t by its series near 0, where both forms cancel.
    long double want = -expm1l(-x) - x * t;
    if (s < 1e-2) {
      want = x * x *
             (1 / 2.0L -
              x * (1 / 3.0L - x * (1 / 8.0L - x * (1 / 30.0L - x * (1 / 144.0L - x / 840.0L)))));
    }
    smaller = std::max(smaller, Relative(d.smaller, want));
    if (s < 1e-2) return;
    const long double r = tanhl(x / 2);
    const long double f = (1 + r) * log1pl(r) + (r < 1 ? (1 - r) * log1pl(-r) : 0);
    if (s < 40) js = std::max(js, Relative(d.js, (1 + t) / 4 * f));
  });
  EXPECT_LE(smaller, 1e-14) << smaller;
  EXPECT_LE(js, 1e-14) << js;
  EXPECT_EQ(DivergenceOf(0.0).js, 0.0);
  EXPECT_NEAR(DivergenceOf(Infinity()).js, 0.5 * std::log(2.0), 1e-16);
  // s -> 0: js / s^2 -> 1/8.
  EXPECT_NEAR(DivergenceOf(1e-8).js / 1e-16, 0.125, 1e-9);
}

TEST(CudaCore, SoftcapIsTanh) {
  for (const double x : {0.0, 1e-9, -0.3, 7.0, -29.5, 1e4, -1e4}) {
    const long double want = 30.0L * tanhl(static_cast<long double>(x) / 30.0L);
    EXPECT_NEAR(CoreSoftcap(x, 30.0), static_cast<double>(want), 2e-15 * std::fabs(x) + 1e-300);
  }
  EXPECT_EQ(CoreSoftcap(-Infinity(), 30.0), -30.0);
}

}  // namespace
}  // namespace assay::cuda
