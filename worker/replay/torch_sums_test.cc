// The float32 steps of published reports, chunk by chunk, against the same steps written down
// plainly: a step more or fewer, or a chunk that begins a column off, moves the last digits.

#include "worker/replay/torch_sums.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

float Rounded(long double x) { return static_cast<float>(x); }

// ln sum exp over columns [0, chunk), [chunk, 2 chunk), ..., each step rounded to float32.
float LogZ(const std::vector<float>& x, size_t chunk) {
  float total = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < x.size(); begin += chunk) {
    const size_t end = std::min(x.size(), begin + chunk);
    float max = x[begin];
    for (size_t v = begin; v < end; ++v) max = std::max(max, x[v]);
    long double sum = 0;
    for (size_t v = begin; v < end; ++v) sum += expl(static_cast<long double>(x[v]) - max);
    const float part = max + Rounded(logl(Rounded(sum)));
    const float high = std::max(total, part), low = std::min(total, part);
    total = high;
    if (std::isfinite(low)) total += Rounded(log1pl(Rounded(expl(low - high))));
  }
  return total;
}

struct Sums {
  double kl = 0, jsd_bits = 0;
};

Sums Published(const std::vector<float>& ref, const std::vector<float>& cand, size_t chunk) {
  const float z = LogZ(ref, chunk), w = LogZ(cand, chunk);
  Sums out;
  for (size_t v = 0; v < ref.size(); ++v) {
    const float a = ref[v] - z, b = cand[v] - w;
    const float p = Rounded(expl(a)), q = Rounded(expl(b));
    const float middle = Rounded(logl(std::max(0.5f * (p + q), 1e-30f)));
    out.kl += static_cast<double>(p * (a - b));
    out.jsd_bits += (0.5 * static_cast<double>(p * (a - middle)) +
                     0.5 * static_cast<double>(q * (b - middle))) /
                    std::log(2.0);
  }
  return out;
}

// bf16 logits of one row; products and sums of the problem are exact.
std::vector<float> LogitsOf(const Problem& problem, size_t operand, uint64_t row) {
  const ReplayHead& head = problem.plan.heads[0];
  std::vector<float> out;
  for (uint64_t v = 0; v < head.vocab; ++v) {
    float dot = 0;
    for (uint64_t k = 0; k < head.hidden; ++k) {
      dot += Bf16ToFloat(problem.operands[operand][0][row * head.hidden + k]) *
             Bf16ToFloat(problem.heads[0][v * head.hidden + k]);
    }
    out.push_back(Bf16ToFloat(FloatToBf16(dot)));
  }
  return out;
}

TEST(TorchSums, AreThePublishedStepsWhateverTheChunkAndTheRanks) {
  constexpr uint64_t kRows = 21;
  const auto problem = MakeProblem({1'203, 40, {kRows}, 1, false}, 23);
  const auto quarters = [](std::vector<uint16_t>& values) {
    for (uint16_t& v : values) v = FloatToBf16(std::nearbyint(Bf16ToFloat(v) * 4) / 4);
  };
  quarters(problem->heads[0]);
  for (auto& operand : problem->operands) quarters(operand[0]);
  problem->plan.policy = ReplayPolicy::kTorchBf16;
  for (const uint64_t chunk : {97, 400, 1'203}) {
    problem->plan.vocab_chunk = chunk;
    for (const int ranks : {1, 4}) {
      const auto result = RunOnRanks(problem->plan, ranks, 2);
      ASSERT_TRUE(result.ok()) << result.status();
      for (uint64_t row = 0; row < kRows; ++row) {
        const Sums want = Published(LogitsOf(*problem, 0, row), LogitsOf(*problem, 1, row), chunk);
        EXPECT_NEAR(result->rows[0][0].f64[0][row], want.kl, 1e-11) << chunk << " row " << row;
        EXPECT_NEAR(result->rows[0][0].f64[2][row], want.jsd_bits, 1e-11) << chunk << " " << row;
      }
    }
  }
}

}  // namespace
}  // namespace assay
