// The measured error of the elementary functions against 113-bit arithmetic, on dense, random and
// edge arguments; every instruction set gives the same bits on the same arguments.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "worker/replay/kernels.h"
#include "worker/replay/quad_reference.h"

namespace assay {
namespace {

struct Random {
  uint64_t state = 4711;
  double operator()() {  // [0, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  }
};

// A few numbers around each centre, where a function changes its method.
void AddAround(double centre, std::vector<double>* out) {
  double up = centre, down = centre;
  for (int i = 0; i < 40; ++i) {
    out->push_back(up);
    out->push_back(down);
    up = std::nextafter(up, INFINITY);
    down = std::nextafter(down, 0.0);
  }
  for (int i = 0; i < 40; ++i) {
    out->push_back(centre * (1 + (i - 20) * 0x1p-30));
    out->push_back(centre * (1 + (i - 20) * 0x1p-12));
  }
}

// Magnitudes in (0, 707]: an even grid, log-uniform ones down to 2^-70, all arguments where a
// reduction by multiples of ln 2 turns, thresholds of polynomials, and powers of two.
const std::vector<double>& Magnitudes() {
  static const std::vector<double>* const all = [] {
    auto* const out = new std::vector<double>;
    Random random;
    for (int i = 1; i <= 60'000; ++i) out->push_back(707.0 * i / 60'000);
    for (int i = 0; i <= 40'000; ++i) out->push_back(2.0 * (i + random()) / 40'001);
    for (int i = 0; i < 60'000; ++i) out->push_back(std::exp2(random() * 79 - 70));
    for (int n = 1; n < 2 * 1019; ++n) {
      const double turn = n * 0.34657359027997264;
      for (int k = -2; k <= 2; ++k) out->push_back(turn * (1 + k * 0x1p-52));
    }
    for (const double c : {0.34375, 0.34657359027997264, 0.36787944117144233, 1.0, 2.0, 706.0}) {
      AddAround(c, out);
    }
    for (int e = -70; e < 10; ++e) out->push_back(std::exp2(e));
    std::erase_if(*out, [](double x) { return !(x > 0 && x <= 707); });
    return out;
  }();
  return *all;
}

std::vector<const ReplayKernels*> Tables() {
  int count = 0;
  const ReplayKernels* const* all = AllKernels(&count);
  return {all, all + count};
}

// The largest error of `function` over `arguments`, which must be at most `bound` and be reached by
// every instruction set with the same bits.
void Measure(const char* name, const std::vector<double>& arguments, double bound,
             const std::function<double(const ReplayKernels&, double)>& function,
             const std::function<Quad(double)>& truth) {
  double worst = 0, where = 0;
  for (const double x : arguments) {
    const double got = function(*Tables()[0], x);
    const double error = UlpError(got, truth(x));
    if (!(error <= worst)) {
      worst = error;
      where = x;
    }
    for (const ReplayKernels* table : Tables()) {
      const double other = function(*table, x);
      ASSERT_EQ(std::memcmp(&got, &other, sizeof got), 0) << table->isa << " at " << x;
    }
  }
  std::printf("%-12s %.3f ulp at %a of %zu arguments (bound %.1f)\n", name, worst, where,
              arguments.size(), bound);
  EXPECT_LE(worst, bound) << name << " at " << where;
}

TEST(Elementary, Exp) {
  Measure(
      "exp", Magnitudes(), kExpUlpMax, [](const auto& k, double x) { return k.exp(-x); },
      [](double x) { return QuadExp(-Quad{x}); });
  for (const ReplayKernels* table : Tables()) {
    EXPECT_EQ(table->exp(0.0), 1.0);
    EXPECT_EQ(table->exp(-0.0), 1.0);
    EXPECT_EQ(table->exp(-0x1p-1074), 1.0);
    EXPECT_EQ(table->exp(-1e-300), 1.0);
    EXPECT_LE(UlpError(table->exp(-708.0), QuadExp(-708)), kExpUlpMax);
    EXPECT_EQ(table->exp(std::nextafter(-708.0, -INFINITY)), 0.0);
    EXPECT_EQ(table->exp(-1e308), 0.0);
    EXPECT_EQ(table->exp(-INFINITY), 0.0);
    EXPECT_EQ(table->exp(NAN), 0.0);
  }
}

// Terms of sums may be less exact the smaller they are; in units of the largest term (1) they are
// as good.
TEST(Elementary, ExpOfTerms) {
  double worst = 0;
  for (const double x : Magnitudes()) {
    const double got = Tables()[0]->exp_term(-x);
    const double error = UlpError(got, QuadExp(-Quad{x}));
    EXPECT_LE(error, kExpUlpMax + kExpTermUlpMax * x) << x;
    worst = std::max(worst, error / (kExpUlpMax + kExpTermUlpMax * x));
    for (const ReplayKernels* table : Tables()) EXPECT_EQ(table->exp_term(-x), got) << table->isa;
  }
  std::printf("exp of terms: %.2f of its bound\n", worst);
  for (const ReplayKernels* table : Tables()) EXPECT_EQ(table->exp_term(0.0), 1.0);
}

TEST(Elementary, ExpSplit) {
  const auto part = [](int which) {
    return [which](const ReplayKernels& k, double s) {
      double parts[2];
      k.exp_split(s, &parts[0], &parts[1]);
      return parts[which];
    };
  };
  Measure("exp(-s)", Magnitudes(), kExpSplitUlpMax, part(0),
          [](double s) { return QuadExp(-Quad{s}); });
  Measure("1 - exp(-s)", Magnitudes(), kExpSplitUlpMax, part(1),
          [](double s) { return -QuadExpm1(-Quad{s}); });
  for (const ReplayKernels* table : Tables()) {
    double t, u;
    table->exp_split(0.0, &t, &u);
    EXPECT_EQ(t, 1.0);
    EXPECT_EQ(u, 0.0);
    table->exp_split(INFINITY, &t, &u);
    EXPECT_EQ(t, 0.0);
    EXPECT_EQ(u, 1.0);
    table->exp_split(0x1p-1074, &t, &u);
    EXPECT_EQ(u, 0x1p-1074);
    table->exp_split(1e300, &t, &u);
    EXPECT_EQ(t, 0.0);
    EXPECT_EQ(u, 1.0);
  }
}

TEST(Elementary, Log1p) {
  // Sums of up to 2^24 columns and what is left of very peaked rows.
  std::vector<double> arguments = Magnitudes();
  Random random;
  for (int i = 0; i < 60'000; ++i) arguments.push_back(std::exp2(random() * 100 - 70));
  for (int i = 0; i < 60'000; ++i) arguments.push_back(random() * 3);
  for (int e = -8; e < 26; ++e) {
    AddAround(std::exp2(e), &arguments);
    AddAround(std::exp2(e) - 1, &arguments);
    AddAround(std::exp2(e) * std::sqrt(2.0) - 1, &arguments);
  }
  std::erase_if(arguments, [](double x) { return !(x > 0); });
  Measure(
      "log1p", arguments, kLog1pUlpMax, [](const auto& k, double x) { return k.log1p(x); },
      [](double x) { return QuadLog1p(x); });
  for (const ReplayKernels* table : Tables()) {
    EXPECT_EQ(table->log1p(0.0), 0.0);
    EXPECT_EQ(table->log1p(0x1p-1074), 0x1p-1074);
    EXPECT_EQ(table->log1p(1e-300), 1e-300);
  }
}

TEST(Elementary, Softcap) {
  std::vector<double> caps = {0.7, 1.0, 30.0, 50.0, 1e4};
  Random random;
  for (int i = 0; i < 10; ++i) caps.push_back(std::exp2(random() * 16 - 2));
  for (const double cap : caps) {
    std::vector<double> arguments;
    const std::vector<double>& all = Magnitudes();
    for (size_t i = 0; i < all.size(); i += cap == 30 ? 1 : 9) {
      arguments.push_back((all[i] < 1 ? all[i] : all[i] / 20) * cap);
    }
    for (int e = -60; e < 8; ++e) AddAround(std::exp2(e) * cap, &arguments);
    SCOPED_TRACE(cap);
    const auto truth = [cap](double x) { return Quad{cap} * QuadTanh(Quad{x} / Quad{cap}); };
    Measure(("softcap " + std::to_string(cap).substr(0, 4)).c_str(), arguments, kSoftcapUlpMax,
            [cap](const auto& k, double x) { return k.softcap(x, cap); }, truth);
    for (const ReplayKernels* table : Tables()) {
      EXPECT_EQ(table->softcap(0.0, cap), 0.0);
      EXPECT_EQ(table->softcap(1e30, cap), cap);
      for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(table->softcap(-arguments[i * 7], cap), -table->softcap(arguments[i * 7], cap));
      }
    }
  }
}

// Neighbouring fp32 logits never change places, so top-1 and ties are those of the logits.
TEST(Elementary, SoftcapNeverReversesAnOrder) {
  Random random;
  for (int i = 0; i < 20'000; ++i) {
    const auto x = static_cast<float>((random() - 0.5) * std::exp2(random() * 20 - 8));
    const float next = std::nextafter(x, 1e30f);
    EXPECT_LE(Kernels().softcap(x, 30.0), Kernels().softcap(next, 30.0)) << x;
  }
}

TEST(Elementary, TheDocumentStatesTheAssertedBounds) {
  const char* folder = std::getenv("ASSAY_SOURCE_DIR");
  const auto text =
      ReadFile(std::string(folder != nullptr ? folder : ".") + "/docs/metric.md", 1 << 20);
  ASSERT_TRUE(text.ok());
  const auto row = [](const char* name, double bound) {
    char line[80];
    std::snprintf(line, sizeof line, "| %s | %g ulp |", name, bound);
    return std::string(line);
  };
  char term[80];
  std::snprintf(term, sizeof term, "| exp of the terms of sums | %g ulp + %g ulp per unit of x |",
                kExpUlpMax, kExpTermUlpMax);
  for (const std::string& want :
       {row("exp", kExpUlpMax), std::string(term), row("exp(-s), 1 - exp(-s)", kExpSplitUlpMax),
        row("log1p", kLog1pUlpMax), row("softcap", kSoftcapUlpMax)}) {
    EXPECT_THAT(*text, ::testing::HasSubstr(want));
  }
}

}  // namespace
}  // namespace assay
