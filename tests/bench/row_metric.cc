#include <algorithm>
#include <cstring>
#include <vector>

#include "storage/base/bf16.h"
#include "tests/bench/bare_calls.h"
#include "tests/bench/replay_data.h"
#include "tests/bench/replay_rows.h"
#include "worker/replay/kernels.h"

namespace assay {

#if defined(__x86_64__)
namespace bare_avx512 {
extern const bench::BareCalls kBare;
}
namespace bare_avx2 {
extern const bench::BareCalls kBare;
}
#endif
namespace bare_portable {
extern const bench::BareCalls kBare;
}

namespace bench {

const BareCalls& Bare(const char* isa) {
#if defined(__x86_64__)
  if (std::strcmp(isa, "avx512") == 0) return bare_avx512::kBare;
  if (std::strcmp(isa, "avx2") == 0) return bare_avx2::kBare;
#endif
  return bare_portable::kBare;
}

namespace {

// Sixteen rows of one leaf of a 49,152-column vocabulary: they stay in the second-level cache.
constexpr int64_t kColumns = 3'072, kRows = 16;

struct Logits {
  std::vector<float> ref, cand, exponents, tails;
};

Logits MakeLogits() {
  std::vector<uint16_t> noise(static_cast<size_t>(24 * kColumns * kRows));
  Fill(noise, 9, 1.0f);
  Logits out;
  for (int64_t i = 0; i < kColumns * kRows; ++i) {
    const auto gauss = [&](int64_t first) {  // standard deviation 1
      float sum = 0;
      for (int64_t k = first; k < first + 12; ++k) {
        sum += Bf16ToFloat(noise[static_cast<size_t>(k * kColumns * kRows + i)]);
      }
      return sum;
    };
    out.ref.push_back(3.0f * gauss(0));
    out.cand.push_back(out.ref.back() + 0.3f * gauss(12));
    out.exponents.push_back(-3.0f * gauss(0) - 20.0f);
    out.tails.push_back(0.18f + 0.36f * Bf16ToFloat(noise[static_cast<size_t>(i)]));
  }
  return out;
}

}  // namespace

BareCost MeasureBareCalls(uint64_t repeats) {
  const BareCalls& bare = Bare(Kernels().isa);
  const Logits logits = MakeLogits();
  Samples exps, logs;
  volatile double sink = 0;
  for (uint64_t r = 0; r < repeats; ++r) {
    exps.Take([&] { sink = sink + bare.sum_exp(logits.exponents.data(), kColumns * kRows); });
    logs.Take([&] { sink = sink + bare.sum_log1p(logits.tails.data(), kColumns * kRows); });
  }
  const double each = 1e9 / static_cast<double>(kColumns * kRows);
  return {exps.processor() * each, logs.processor() * each};
}

Json MetricRow(const Flags& flags) {
  const ReplayKernels& kernels = Kernels();
  const BareCalls& bare = Bare(kernels.isa);
  const Logits logits = MakeLogits();
  std::vector<SideLeaf> sides[2] = {std::vector<SideLeaf>(kRows), std::vector<SideLeaf>(kRows)};
  Samples first, second, exps, logs;
  volatile double sink = 0;
  for (uint64_t r = 0; r < 100 * Number(flags, "--repeats"); ++r) {
    first.Take([&] {
      for (int64_t row = 0; row < kRows; ++row) {
        const int64_t at = row * kColumns;
        kernels.side_f32(&logits.ref[at], kColumns, 0, 5, nullptr, &sides[0][row]);
        kernels.side_f32(&logits.cand[at], kColumns, 0, 5, nullptr, &sides[1][row]);
      }
    });
    second.Take([&] {
      for (int64_t row = 0; row < kRows; ++row) {
        const SideLeaf &a = sides[0][row], &b = sides[1][row];
        const int64_t at = row * kColumns;
        const PairRow values{a.max,
                             b.max,
                             kernels.log1p(a.tail),
                             kernels.log1p(b.tail),
                             logits.cand[at + a.argmax],
                             a.argmax};
        PairLeaf pair;
        kernels.pair_f32(&logits.ref[at], &logits.cand[at], kColumns, 0, values, &pair);
        sink = sink + pair.jsd;
      }
    });
    exps.Take([&] { sink = sink + bare.sum_exp(logits.exponents.data(), kColumns * kRows); });
    logs.Take([&] { sink = sink + bare.sum_log1p(logits.tails.data(), kColumns * kRows); });
  }
  const double per_column = 1e9 / static_cast<double>(kColumns * kRows);
  const double metric = first.processor() + second.processor();
  // Each operand's exp once in the first pass; in the second exp of the larger probability, exp of
  // the ratio, and the logarithm of the mean.
  const double calls = 4 * exps.processor() + logs.processor();
  return {{"ratio", {{"wall", metric / calls}, {"processor", metric / calls}}},
          {"isa", kernels.isa},
          {"ns_per_column",
           {{"first_pass_of_one_operand", first.processor() / 2 * per_column},
            {"second_pass", second.processor() * per_column},
            {"exp", exps.processor() * per_column},
            {"log", logs.processor() * per_column}}}};
}

}  // namespace bench
}  // namespace assay
