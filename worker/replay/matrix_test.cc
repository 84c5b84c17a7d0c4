// The invariance matrix: threads x row tile x unit size x ranks x restart x order of units. Every
// combination gives the same bytes per position on one backend. Here each pair of values of two
// dimensions occurs together; ASSAY_INVARIANCE_FULL=1 runs the whole product (a minute or two).

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "storage/base/status.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

struct Cut {
  int threads = 1;
  uint64_t row_tile = 0;  // 0: whole contexts
  size_t unit = 0;        // contexts per unit; 0: all
  int ranks = 1;
  bool restart = false;  // a unit in the middle is cancelled and computed again by new engines
  bool shuffled = false;

  std::string Name() const {
    return std::to_string(threads) + " threads, tile " + std::to_string(row_tile) + ", unit " +
           std::to_string(unit) + ", " + std::to_string(ranks) + " ranks" +
           (restart ? ", restart" : "") + (shuffled ? ", shuffled" : "");
  }
};

constexpr int kThreads[] = {1, 2, 4};
constexpr uint64_t kTiles[] = {16, 64, 128, 0};
constexpr size_t kUnits[] = {1, 4, 0};
constexpr int kRanks[] = {1, 2, 4, 8};

std::vector<Cut> AllCuts() {
  std::vector<Cut> out;
  for (const int threads : kThreads) {
    for (const uint64_t tile : kTiles) {
      for (const size_t unit : kUnits) {
        for (const int ranks : kRanks) {
          for (const bool restart : {false, true}) {
            for (const bool shuffled : {false, true}) {
              out.push_back({threads, tile, unit, ranks, restart, shuffled});
            }
          }
        }
      }
    }
  }
  return out;
}

// Cuts such that any two values of two dimensions meet in one of them: greedily the cut that brings
// the most new pairs.
std::vector<Cut> PairwiseCuts() {
  using Pair = std::array<int64_t, 4>;  // dimension, value, dimension, value
  const auto pairs_of = [](const Cut& c) {
    const int64_t values[] = {c.threads,
                              static_cast<int64_t>(c.row_tile),
                              static_cast<int64_t>(c.unit),
                              c.ranks,
                              c.restart,
                              c.shuffled};
    std::vector<Pair> out;
    for (int i = 0; i < 6; ++i) {
      for (int j = i + 1; j < 6; ++j) out.push_back({i, values[i], j, values[j]});
    }
    return out;
  };
  const std::vector<Cut> all = AllCuts();
  std::set<Pair> open;
  for (const Cut& cut : all) {
    for (const Pair& pair : pairs_of(cut)) open.insert(pair);
  }
  std::vector<Cut> out;
  while (!open.empty()) {
    const auto gain = [&](const Cut& cut) {
      const auto pairs = pairs_of(cut);
      return std::count_if(pairs.begin(), pairs.end(),
                           [&](const Pair& pair) { return open.count(pair) > 0; });
    };
    const Cut& best = *std::max_element(
        all.begin(), all.end(), [&](const Cut& a, const Cut& b) { return gain(a) < gain(b); });
    for (const Pair& pair : pairs_of(best)) open.erase(pair);
    out.push_back(best);
  }
  return out;
}

// Ranks as threads, with engines that live until a restart.
class Ranks {
 public:
  Ranks(int ranks, int threads) : threads_(threads), engines_(ranks) { Restart(); }

  void Restart() {
    for (auto& engine : engines_) engine = ReplayEngine::Create(threads_).value();
    group_ = CreateThreadCollectives(static_cast<int>(engines_.size()), 60'000);
  }

  // The result of rank 0; `cancel_after` rows (0: never) are the last before it cancels.
  absl::StatusOr<ReplayResult> Run(const ReplayPlan& plan, uint64_t cancel_after) {
    std::vector<absl::StatusOr<ReplayResult>> results(engines_.size(), absl::UnknownError("none"));
    std::vector<std::thread> running;
    for (size_t r = 0; r < engines_.size(); ++r) {
      running.emplace_back([&, r] {
        const auto progress = [&](uint64_t done, uint64_t) {
          return cancel_after == 0 || r > 0 || done < cancel_after;
        };
        results[r] = engines_[r]->Run(plan, *group_[r], progress, nullptr);
      });
    }
    for (std::thread& t : running) t.join();
    for (const auto& result : results) {
      EXPECT_EQ(ReasonOf(result.status()), ReasonOf(results[0].status()));
      if (result.ok() && results[0].ok()) {
        EXPECT_TRUE(BytesOf(*result) == BytesOf(*results[0]));
      }
    }
    return results[0];
  }

 private:
  const int threads_;
  std::vector<std::unique_ptr<ReplayEngine>> engines_;
  std::vector<std::unique_ptr<Collective>> group_;
};

// The plan of some contexts of a problem.
ReplayPlan UnitOf(const ReplayPlan& whole, const std::vector<size_t>& contexts, uint64_t row_tile) {
  ReplayPlan plan = whole;
  plan.row_tile = row_tile;
  plan.contexts.clear();
  for (const size_t c : contexts) plan.contexts.push_back(whole.contexts[c]);
  for (ReplayOperand& operand : plan.operands) {
    operand.rows = [all = operand.rows, contexts](size_t i) { return all(contexts[i]); };
  }
  return plan;
}

// All position arrays in the order of contexts, as bytes.
std::string Compute(const ReplayPlan& whole, const Cut& cut) {
  const size_t contexts = whole.contexts.size(), step = cut.unit == 0 ? contexts : cut.unit;
  std::vector<std::vector<size_t>> units;
  for (size_t begin = 0; begin < contexts; begin += step) {
    std::vector<size_t>& unit = units.emplace_back(std::min(step, contexts - begin));
    std::iota(unit.begin(), unit.end(), begin);
  }
  if (cut.shuffled) {
    std::rotate(units.begin(), units.begin() + static_cast<ptrdiff_t>(units.size() / 2),
                units.end());
    for (size_t i = 0; i + 2 < units.size(); i += 2) std::swap(units[i], units[i + 2]);
    for (auto& unit : units) std::reverse(unit.begin(), unit.end());
  }
  Ranks ranks(cut.ranks, cut.threads);
  ReplayResult merged;
  merged.rows.assign(whole.comparisons.size(), std::vector<ReplayRows>(contexts));
  for (size_t u = 0; u < units.size(); ++u) {
    const ReplayPlan plan = UnitOf(whole, units[u], cut.row_tile);
    if (cut.restart && u == units.size() / 2) {
      EXPECT_EQ(ReasonOf(ranks.Run(plan, 1).status()), "REPLAY_CANCELLED");
      ranks.Restart();
    }
    auto result = ranks.Run(plan, 0);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return "";
    for (size_t c = 0; c < whole.comparisons.size(); ++c) {
      for (size_t i = 0; i < units[u].size(); ++i) {
        merged.rows[c][units[u][i]] = std::move(result->rows[c][i]);
      }
    }
  }
  return BytesOf(merged);
}

// Nine contexts, one longer than the largest tile; 1,203 columns, eight leaves of two sizes; two
// candidates, the second through its own head too.
std::unique_ptr<Problem> MatrixProblem() {
  return MakeProblem({1'203, 40, {130, 17, 1, 64, 5, 33, 16, 15, 80}, 2, true}, 31);
}

class Matrix : public ::testing::TestWithParam<ReplayBackend> {};

TEST_P(Matrix, EveryCutGivesTheSameBytes) {
  const char* full = std::getenv("ASSAY_INVARIANCE_FULL");
  const std::vector<Cut> cuts = full != nullptr && *full == '1' ? AllCuts() : PairwiseCuts();
  const auto problem = MatrixProblem();
  problem->plan.backend = GetParam();
  const auto first = RunOnRanks(problem->plan, 1, 1);
  if (ReasonOf(first.status()) == "BACKEND_UNAVAILABLE") GTEST_SKIP() << first.status();
  const std::string expected = Compute(problem->plan, Cut());
  ASSERT_EQ(expected.size(), 361u * 3 * (9 * 8 + 5 * 4));
  for (const Cut& cut : cuts) {
    ASSERT_TRUE(Compute(problem->plan, cut) == expected) << cut.Name();
  }
  std::printf("%zu cuts\n", cuts.size());
}

TEST_P(Matrix, BothHeadsTogetherAreBothHeadsAlone) {
  const auto problem = MatrixProblem();
  problem->plan.backend = GetParam();
  const auto both = RunOnRanks(problem->plan, 2, 1);
  if (ReasonOf(both.status()) == "BACKEND_UNAVAILABLE") GTEST_SKIP() << both.status();
  ASSERT_TRUE(both.ok()) << both.status();
  ReplayResult merged;
  for (const ReplayComparison& comparison : problem->plan.comparisons) {
    ReplayPlan one = problem->plan;
    one.comparisons = {comparison};
    std::erase_if(one.heads, [&](const ReplayHead& head) {
      return head.id != comparison.ref.head && head.id != comparison.cand.head;
    });
    std::erase_if(one.operands, [&](const ReplayOperand& operand) {
      return operand.id != comparison.ref.operand && operand.id != comparison.cand.operand;
    });
    auto alone = RunOnRanks(one, 1, 1);
    ASSERT_TRUE(alone.ok()) << alone.status();
    merged.rows.push_back(std::move(alone->rows[0]));
  }
  EXPECT_TRUE(BytesOf(merged) == BytesOf(*both));
}

INSTANTIATE_TEST_SUITE_P(Backends, Matrix,
                         ::testing::Values(ReplayBackend::kCpuBf16, ReplayBackend::kCpuF32),
                         [](const auto& info) {
                           return info.param == ReplayBackend::kCpuBf16 ? "CpuBf16" : "CpuF32";
                         });

// Where fp32 sums are exact both backends have the same logits and so the same bytes; elsewhere
// they differ by the sums' rounding alone, which is bounded by width * 2^-24 * sum |h w|.
TEST(Backends, AgreeWithinTheRoundingOfTheirSums) {
  const auto problem = MatrixProblem();
  const auto run = [&](ReplayBackend backend) {
    problem->plan.backend = backend;
    return RunOnRanks(problem->plan, 2, 2);
  };
  auto bf16 = run(ReplayBackend::kCpuBf16);
  if (ReasonOf(bf16.status()) == "BACKEND_UNAVAILABLE") GTEST_SKIP() << bf16.status();
  auto f32 = run(ReplayBackend::kCpuF32);
  ASSERT_TRUE(bf16.ok() && f32.ok()) << bf16.status() << f32.status();
  EXPECT_FALSE(BytesOf(*bf16) == BytesOf(*f32));  // or this test would show nothing
  // |h| and |w| stay below 4 (MakeProblem); two orders of 40 terms.
  constexpr double kLogit = 2 * 40 * 0x1p-24 * 40 * 4 * 4;
  double worst = 0;
  for (size_t c = 0; c < bf16->rows.size(); ++c) {
    for (size_t i = 0; i < bf16->rows[c].size(); ++i) {
      for (int k = 0; k < kReplayF64Count; ++k) {
        for (size_t r = 0; r < bf16->rows[c][i].f64[k].size(); ++r) {
          const double a = bf16->rows[c][i].f64[k][r], b = f32->rows[c][i].f64[k][r];
          EXPECT_LE(std::fabs(a - b), 4 * kLogit * (1 + std::fabs(a))) << kReplayF64Names[k];
          worst = std::max(worst, std::fabs(a - b));
        }
      }
    }
  }
  std::printf("largest difference between backends %.1e (logits may differ by %.1e)\n", worst,
              kLogit);
  for (auto* values : {&problem->heads[0], &problem->heads[1]}) {
    for (uint16_t& v : *values) v = FloatToBf16(std::nearbyint(Bf16ToFloat(v) * 4) / 4);
  }
  for (auto& operand : problem->operands) {
    for (auto& rows : operand) {
      for (uint16_t& v : rows) v = FloatToBf16(std::nearbyint(Bf16ToFloat(v) * 4) / 4);
    }
  }
  bf16 = run(ReplayBackend::kCpuBf16);
  f32 = run(ReplayBackend::kCpuF32);
  ASSERT_TRUE(bf16.ok() && f32.ok());
  EXPECT_TRUE(BytesOf(*bf16) == BytesOf(*f32));
}

}  // namespace
}  // namespace assay
