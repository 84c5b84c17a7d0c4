// A head's logit scale and bias: values against 113-bit arithmetic, invariance, refusals.

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "storage/base/status.h"
#include "worker/replay/quad_reference.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

// Two heads of small integers over `columns` columns, so that every fp32 product is exact in any
// order; biases and scales are not.
std::unique_ptr<Problem> ExactProblem(uint64_t columns) {
  auto problem = MakeProblem({columns, 24, {7, 4}, 2, true}, 21);
  uint64_t state = 5;
  const auto fill = [&](std::vector<uint16_t>* values) {
    for (uint16_t& value : *values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = FloatToBf16(static_cast<float>(static_cast<int>(state >> 60) - 8) * 0.25f);
    }
  };
  for (auto& head : problem->heads) fill(&head);
  for (auto& operand : problem->operands) {
    for (auto& rows : operand) fill(&rows);
  }
  ReplayPlan& plan = problem->plan;
  plan.row_tile = 5;
  plan.heads[0].scale = 0.0625;
  plan.heads[1].scale = 0.07;
  for (uint64_t v = 0; v < columns; ++v) {
    plan.heads[1].bias.push_back(static_cast<float>(std::sin(static_cast<double>(v)) * 3));
  }
  return problem;
}

std::vector<double> LogitsOf(const Problem& problem, size_t operand, size_t head, size_t context,
                             uint64_t row) {
  const ReplayHead& h = problem.plan.heads[head];
  std::vector<double> out;
  for (uint64_t v = 0; v < h.vocab; ++v) {
    double dot = 0;
    for (uint64_t k = 0; k < h.hidden; ++k) {
      dot +=
          static_cast<double>(Bf16ToFloat(problem.operands[operand][context][row * h.hidden + k])) *
          static_cast<double>(Bf16ToFloat(problem.heads[head][v * h.hidden + k]));
    }
    const double bias = h.bias.empty() ? 0 : static_cast<double>(h.bias[v]);
    out.push_back(h.scale * dot + bias);
  }
  return out;
}

void ExpectValues(const Problem& problem, const ReplayResult& result) {
  const ReplayPlan& plan = problem.plan;
  for (size_t c = 0; c < plan.comparisons.size(); ++c) {
    const size_t operand = plan.comparisons[c].cand.operand.back() - '0';
    const size_t head = plan.comparisons[c].cand.head.back() - '0';
    for (size_t context = 0; context < plan.contexts.size(); ++context) {
      for (uint64_t row = 0; row < plan.contexts[context].observed.size(); ++row) {
        const std::vector<double> ref = LogitsOf(problem, 0, 0, context, row);
        const std::vector<double> cand = LogitsOf(problem, operand, head, context, row);
        const QuadRow want =
            QuadMetric(ref, cand, plan.softcap.value_or(0), plan.contexts[context].observed[row]);
        const ReplayRows& got = result.rows[c][context];
        for (int k = 0; k < kReplayF64Count; ++k) {
          const auto value = static_cast<double>(want.f64[k]);
          EXPECT_NEAR(got.f64[k][row], value, 1e-13 + 1e-12 * std::fabs(value))
              << plan.comparisons[c].id << " " << kReplayF64Names[k] << " row " << row;
        }
        for (int k = 0; k < kReplayI32Count; ++k) {
          EXPECT_EQ(got.i32[k][row], want.i32[k]) << kReplayI32Names[k] << " row " << row;
        }
      }
    }
  }
}

TEST(Affine, ValuesAreThoseOfTheDefinition) {
  const auto problem = ExactProblem(203);
  for (const double cap : {0.0, 1.5}) {
    for (const ReplayPolicy policy : {ReplayPolicy::kExact, ReplayPolicy::kFp64Audit}) {
      SCOPED_TRACE(testing::Message() << "cap " << cap << " " << ReplayPolicyName(policy));
      problem->plan.policy = policy;
      problem->plan.softcap = cap > 0 ? std::optional(cap) : std::nullopt;
      const auto result = RunOnRanks(problem->plan, 2, 1);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectValues(*problem, *result);
    }
  }
}

TEST(Affine, ThreadsTilesAndRanksDoNotMatter) {
  const auto problem = ExactProblem(9'001);
  problem->plan.softcap = 30;
  const auto whole = RunOnRanks(problem->plan, 1, 1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const int ranks : {2, 8}) {
    for (const uint64_t tile : {1, 0}) {
      problem->plan.row_tile = tile;
      const auto result = RunOnRanks(problem->plan, ranks, 2);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(BytesOf(*result) == BytesOf(*whole)) << ranks << " ranks, tile " << tile;
    }
  }
}

// A scale of 1 with a bias of zeros, and a biased head beside, change no bit.
TEST(Affine, OtherHeadsKeepTheirBits) {
  const auto problem = ExactProblem(997);
  for (ReplayHead& head : problem->plan.heads) head.scale = 1, head.bias.clear();
  const auto plain = RunOnRanks(problem->plan, 1, 1);
  ASSERT_TRUE(plain.ok()) << plain.status();
  problem->plan.heads[0].bias.assign(997, 0.0f);
  const auto zeros = RunOnRanks(problem->plan, 1, 1);
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_TRUE(BytesOf(*plain) == BytesOf(*zeros));
  problem->plan.heads[0].bias.clear();
  problem->plan.heads[1].bias.assign(997, 0.0f);
  problem->plan.heads[1].bias[3] = 40;
  const auto beside = RunOnRanks(problem->plan, 1, 1);
  ASSERT_TRUE(beside.ok()) << beside.status();
  for (const size_t shared : {0, 1}) {
    for (size_t context = 0; context < 2; ++context) {
      EXPECT_EQ(beside->rows[shared][context].f64, plain->rows[shared][context].f64);
      EXPECT_EQ(beside->rows[shared][context].i32, plain->rows[shared][context].i32);
    }
  }
  EXPECT_THAT(beside->rows[2][0].i32[1], ::testing::Each(3));
}

TEST(Affine, IsRefusedByName) {
  const auto problem = ExactProblem(97);
  const auto status = [&](const std::function<void(ReplayPlan&)>& change) {
    ReplayPlan plan = problem->plan;
    change(plan);
    return RunOnRanks(plan, 2, 1).status();
  };
  const auto invalid = [&](const std::function<void(ReplayPlan&)>& change) {
    EXPECT_EQ(ReasonOf(status(change)), "PLAN_INVALID");
  };
  invalid([](ReplayPlan& p) { p.heads[0].scale = 0; });
  invalid([](ReplayPlan& p) { p.heads[0].scale = -1; });
  invalid([](ReplayPlan& p) { p.heads[0].scale = INFINITY; });
  invalid([](ReplayPlan& p) { p.heads[0].scale = NAN; });
  invalid([](ReplayPlan& p) { p.heads[0].scale = 1e300; });  // its logits would be infinite
  invalid([](ReplayPlan& p) { p.heads[0].scale = 1e-300; });
  invalid([](ReplayPlan& p) { p.heads[1].bias.pop_back(); });
  invalid([](ReplayPlan& p) { p.policy = ReplayPolicy::kTorchBf16; });
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const absl::Status refused = status([bad](ReplayPlan& p) { p.heads[1].bias[41] = bad; });
    ASSERT_TRUE(RefusalOf(refused).has_value()) << refused;
    EXPECT_EQ(RefusalOf(refused)->reason, "NON_FINITE_INPUT");
    EXPECT_EQ(RefusalOf(refused)->operand, "o2");
    EXPECT_EQ(RefusalOf(refused)->column, 41);
  }
}

}  // namespace
}  // namespace assay
