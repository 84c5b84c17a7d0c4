// The vector arithmetic: the same bits on every instruction set, and its error against 80-bit libm.

#include "worker/replay/kernels.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace assay {
namespace {

struct Random {
  uint64_t state = 42;
  double operator()() {  // [0, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  }
};

double UlpOf(double x) {
  x = std::fabs(x);
  return std::nextafter(x, INFINITY) - x;
}

// Infinite for a NaN, so that a maximum over errors keeps it.
double ErrorInUlp(double got, long double want) {
  if (std::isnan(got)) return INFINITY;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want)) /
         UlpOf(static_cast<double>(want));
}

TEST(Kernels, ExpIsWithinItsBound) {
  Random random;
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = -(i % 2 == 0 ? random() * 700 : random() * 2);
    worst = std::max(worst, ErrorInUlp(Kernels().exp(x), expl(x)));
  }
  std::printf("exp: %.3f ulp\n", worst);
  EXPECT_LE(worst, kExpUlpMax);
  EXPECT_EQ(Kernels().exp(0.0), 1.0);
  EXPECT_EQ(Kernels().exp(-709.0), 0.0);
  EXPECT_EQ(Kernels().exp(-INFINITY), 0.0);
}

TEST(Kernels, Log1pIsWithinItsBound) {
  Random random;
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::exp2(random() * 60 - 40);
    worst = std::max(worst, ErrorInUlp(Kernels().log1p(x), log1pl(x)));
  }
  std::printf("log1p: %.3f ulp\n", worst);
  EXPECT_LE(worst, 3.0);
  EXPECT_EQ(Kernels().log1p(0.0), 0.0);
}

TEST(Kernels, OneMinusExpDoesNotCancel) {
  Random random;
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double s = std::exp2(random() * 50 - 40);
    double t, u;
    Kernels().exp_split(s, &t, &u);
    worst = std::max(worst, ErrorInUlp(u, -expm1l(-static_cast<long double>(s))));
    if (s < 700) worst = std::max(worst, ErrorInUlp(t, expl(-static_cast<long double>(s))));
  }
  std::printf("1 - exp(-s): %.3f ulp\n", worst);
  EXPECT_LE(worst, 2.0);
}

TEST(Kernels, SoftcapIsWithinFourUlp) {
  Random random;
  double worst = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = static_cast<float>((random() - 0.5) * std::exp2(random() * 20 - 10));
    worst = std::max(worst, ErrorInUlp(Kernels().softcap(x, 30.0), 30.0L * tanhl(x / 30.0L)));
  }
  std::printf("softcap: %.3f ulp\n", worst);
  EXPECT_LE(worst, 4.0);
  EXPECT_EQ(Kernels().softcap(0.0, 30.0), 0.0);
  EXPECT_EQ(Kernels().softcap(1e30, 30.0), 30.0);
  EXPECT_EQ(Kernels().softcap(-1e30, 30.0), -30.0);
}

// exp(-s) - 1 + s and 1 - exp(-s) (1 + s), by their series where they would cancel.
long double Larger(long double s) {
  if (s > 0.5L) return expm1l(-s) + s;
  long double sum = 0;
  for (int k = 25; k >= 2; --k) sum += powl(-s, k) / tgammal(k + 1);
  return sum;
}

long double Smaller(long double s) {
  if (s > 0.5L) return 1 - expl(-s) * (1 + s);
  long double sum = 0;
  for (int k = 25; k >= 2; --k) sum += powl(-s, k) * (k - 1) / tgammal(k + 1);
  return sum;
}

// Infinite for a NaN, as ErrorInUlp.
double RelativeError(double got, long double want) {
  const double error = static_cast<double>(fabsl(got / want - 1));
  return std::isnan(error) ? INFINITY : error;
}

// Equal columns of one ratio isolate each divergence term: 16 of them, as the fast way takes them,
// or a single one, as the careful way does.
TEST(Kernels, DivergenceTermsKeepRelativeAccuracy) {
  Random random;
  double worst_kl = 0, worst_js = 0;
  for (int i = 0; i < 50'000; ++i) {
    const double s = std::exp2(random() * 30 - 24);
    const double p = 0.25;
    // x - log_sum = ln p with one column; cand shifted by s through its logit.
    const int64_t columns = i % 2 == 0 ? 16 : 1;
    const std::vector<double> ref(columns, 0.0), cand(columns, -s);
    PairRow row{0, 0, -std::log(p), -std::log(p), 1e9, 0};
    PairLeaf out;
    Kernels().pair_f64(ref.data(), cand.data(), columns, 0, row, &out);
    const long double scale = static_cast<long double>(columns) *
                              static_cast<long double>(Kernels().exp(0.0 - row.log_sum_ref));
    const long double t = expl(-static_cast<long double>(s));
    const long double larger = scale * Larger(s);
    const long double smaller = scale * Smaller(s);
    worst_kl = std::max(worst_kl, RelativeError(out.kl_ref_cand, larger));
    worst_kl = std::max(worst_kl, RelativeError(out.kl_cand_ref, smaller));
    if (s > 1e-3) {
      const long double r = tanhl(static_cast<long double>(s) / 2);
      const long double rest = 2 * t / (1 + t);  // 1 - r, which would round to 0
      const long double f = (1 + r) * log1pl(r) + rest * (s < 1 ? log1pl(-r) : logl(rest));
      const long double js = scale * (1 + t) / 4 * f;
      worst_js = std::max(worst_js, RelativeError(out.jsd, js));
    }
  }
  std::printf("kl terms %.2e, js terms %.2e (relative)\n", worst_kl, worst_js);
  EXPECT_LE(worst_kl, 1e-14);
  EXPECT_LE(worst_js, 1e-12);  // the 80-bit reference itself cancels
}

// A softcap adds no columns: leaves that are no multiple of eight against plain sums in 80 bits.
// The cap is small, so that a column at -cap would weigh as much as a real one.
TEST(Kernels, SoftcapOfALeafOfAnyLength) {
  int count = 0;
  const ReplayKernels* const* all = AllKernels(&count);
  Random random;
  for (int64_t n = 1; n <= 27; ++n) {
    constexpr double kCap = 2.0;
    std::vector<float> logits[2];
    std::vector<long double> capped[2];
    long double max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      for (int64_t i = 0; i < n; ++i) {
        logits[side].push_back(static_cast<float>((random() - 0.5) * 8));
        capped[side].push_back(kCap * tanhl(logits[side].back() / kCap));
        max[side] = std::max(max[side], capped[side].back());
      }
      for (const long double x : capped[side]) sum[side] += expl(x - max[side]);
    }
    long double kl = 0, accept = 0;
    int64_t beats = 0;
    for (int64_t i = 0; i < n; ++i) {
      const long double p = expl(capped[0][i] - max[0]) / sum[0];
      const long double q = expl(capped[1][i] - max[1]) / sum[1];
      kl += p * (logl(p) - logl(q));
      accept += std::min(p, q);
      beats += capped[1][i] > capped[1][0] ? 1 : 0;
    }
    for (int k = 0; k < count; ++k) {
      SCOPED_TRACE(testing::Message() << all[k]->isa << ", " << n << " columns");
      SideLeaf side[2];
      for (int s = 0; s < 2; ++s) {
        all[k]->side_f32(logits[s].data(), n, kCap, 0, nullptr, &side[s]);
        EXPECT_NEAR(side[s].tail, static_cast<double>(sum[s] - 1), 1e-13);
        EXPECT_EQ(side[s].ties, 1);
      }
      const PairRow row{side[0].max,
                        side[1].max,
                        static_cast<double>(logl(sum[0])),
                        static_cast<double>(logl(sum[1])),
                        side[1].observed,
                        0};
      PairLeaf pair;
      all[k]->pair_f32(logits[0].data(), logits[1].data(), n, kCap, row, &pair);
      EXPECT_NEAR(pair.kl_ref_cand, static_cast<double>(kl), 1e-13);
      EXPECT_NEAR(pair.accept, static_cast<double>(accept), 1e-13);
      EXPECT_EQ(pair.beats, beats);
    }
  }
}

TEST(Kernels, EveryInstructionSetGivesTheSameBits) {
  int count = 0;
  const ReplayKernels* const* all = AllKernels(&count);
  Random random;
  for (int round = 0; round < 40; ++round) {
    const int64_t n = 1 + static_cast<int64_t>(random() * 1500);
    std::vector<float> a(n), b(n);
    const double spread = std::exp2(random() * 12 - 6);
    for (int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>((random() - 0.5) * 20);
      b[i] = a[i] + static_cast<float>((random() - 0.5) * spread);
      if (round % 4 == 1 && random() < 0.1) a[i] = -INFINITY;
      if (round % 4 == 1 && random() < 0.1) b[i] = -INFINITY;
      if (round % 5 == 3) a[i] *= 100, b[i] = a[i] * 1.5f;  // gaps beyond exp's reach
    }
    const double cap = round % 3 == 2 ? 5.0 : 0.0;
    SideLeaf side[2], other_side;
    all[0]->side_f32(a.data(), n, cap, n / 2, nullptr, &side[0]);
    all[0]->side_f32(b.data(), n, cap, n / 2, nullptr, &side[1]);
    const auto sum = [&](const SideLeaf& s) {
      return all[0]->log1p(s.tail + static_cast<double>(s.ties - 1));
    };
    const PairRow row{side[0].max, side[1].max, sum(side[0]), sum(side[1]), b[n / 2], n / 2};
    PairLeaf pair, other_pair;
    all[0]->pair_f32(a.data(), b.data(), n, cap, row, &pair);
    for (int k = 1; k < count; ++k) {
      all[k]->side_f32(a.data(), n, cap, n / 2, nullptr, &other_side);
      EXPECT_EQ(std::memcmp(&side[0], &other_side, sizeof side[0]), 0)
          << all[k]->isa << " round " << round;
      all[k]->pair_f32(a.data(), b.data(), n, cap, row, &other_pair);
      EXPECT_EQ(std::memcmp(&pair, &other_pair, sizeof pair), 0)
          << all[k]->isa << " round " << round;
    }
  }
  EXPECT_GE(count, 1);
}

// Every place of a maximum, a NaN, an infinity or a masked column, in leaves around the sizes of
// vectors and blocks; all logits negative, positive, or mixed.
TEST(Kernels, EveryColumnOfEveryBlockIsSeen) {
  int count = 0;
  const ReplayKernels* const* all = AllKernels(&count);
  Random random;
  for (const int64_t n : {1, 7, 8, 15, 16, 17, 31, 511, 512, 513, 1040, 4097}) {
    for (int sign = -1; sign <= 1; ++sign) {
      std::vector<float> x(n);
      for (float& v : x) v = static_cast<float>(sign * 9 + (random() - 0.5) * 8);
      for (int64_t at = 0; at < n; at += 1 + n / 61) {
        for (int k = 0; k < count; ++k) {
          SCOPED_TRACE(testing::Message() << all[k]->isa << ", " << n << " columns, " << at);
          const float kept = x[at];
          SideLeaf leaf;
          x[at] = 20;
          all[k]->side_f32(x.data(), n, 0, at, nullptr, &leaf);
          EXPECT_EQ(leaf.argmax, at);
          EXPECT_EQ(leaf.ties, 1);
          EXPECT_EQ(leaf.max, 20);
          EXPECT_EQ(leaf.observed, 20);
          EXPECT_EQ(leaf.bad, -1);
          for (const float bad : {NAN, -NAN, INFINITY}) {
            x[at] = bad;
            all[k]->side_f32(x.data(), n, 0, -1, nullptr, &leaf);
            EXPECT_EQ(leaf.bad, at);
          }
          x[at] = -INFINITY;
          all[k]->side_f32(x.data(), n, 0, -1, nullptr, &leaf);
          EXPECT_EQ(leaf.bad, -1);
          EXPECT_EQ(leaf.argmax < 0, n == 1);
          x[at] = kept;
        }
      }
    }
  }
}

TEST(Kernels, DotOfBf16IsExactWhereItFits) {
  const uint16_t one = 0x3f80, two = 0x4000;
  std::vector<uint16_t> a(101, one), b(101, two);
  EXPECT_EQ(Kernels().dot_bf16(a.data(), b.data(), 101), 202.0);
}

}  // namespace
}  // namespace assay
