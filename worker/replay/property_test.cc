// Properties of the metric on random and adversarial rows of stored logits.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/replay/combine.h"
#include "worker/replay/quad_reference.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

using Rows = std::vector<std::vector<float>>;  // [row][column]

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) { (*this)(); }
  double operator()() {  // [0, 1)
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>((*this)() * static_cast<double>(n)); }
  double Normal() {
    return std::sqrt(-2 * std::log(1 - (*this)())) * std::cos(6.283185307179586 * (*this)());
  }

 private:
  uint64_t state_;
};

// A row and one that resembles it, of one of the kinds below.
enum Kind {
  kNoise,       // unrelated
  kNear,        // differences far below 1
  kUlp,         // differences of one unit in the last place here and there
  kPeaked,      // one column takes all but 1e-300 and the other row disagrees
  kOffset,      // +-1e4 added
  kGap,         // differences of 600 to 1,500 nats
  kMaskedBoth,  // -inf in both
  kMaskedRef,   // -inf only in the reference
  kTies,        // few distinct values
  kConstant,    // uniform
  kKinds
};

void MakeRow(Kind kind, int64_t columns, double scale, Random* random, std::vector<float>* ref,
             std::vector<float>* cand) {
  for (int64_t v = 0; v < columns; ++v) {
    double a = random->Normal() * scale, b = a + random->Normal() * 0.1 * scale;
    if (kind == kNoise) b = random->Normal() * scale;
    if (kind == kNear) b = a * (1 + 1e-6 * random->Normal());
    if (kind == kUlp) b = a;
    if (kind == kTies) a = static_cast<double>(random->Below(3)), b = random->Below(3) * 0.5;
    if (kind == kConstant) a = scale, b = -scale;
    if (kind == kOffset) a += 1e4, b -= 1e4;
    if (kind == kGap) b = a - (random->Below(2) == 0 ? 0 : 600 + 900 * (*random)());
    ref->push_back(static_cast<float>(a));
    cand->push_back(static_cast<float>(b));
    if (kind == kUlp && random->Below(5) == 0) cand->back() = std::nextafter(ref->back(), 1e9f);
  }
  const auto any = [&] { return static_cast<size_t>(random->Below(columns)); };
  if (kind == kPeaked) (*ref)[any()] += 690, (*cand)[any()] += 700;
  for (int64_t i = 0; (kind == kMaskedBoth || kind == kMaskedRef) && i < columns / 3; ++i) {
    const size_t v = any();
    (*ref)[v] = -INFINITY;
    if (kind == kMaskedBoth) (*cand)[v] = -INFINITY;
  }
  // At least one column is finite in both.
  for (std::vector<float>* row : {ref, cand}) {
    if (!std::isfinite(row->front())) row->front() = 1;
  }
}

struct Case {
  int64_t columns = 0;
  Rows ref, cand;
  std::vector<Kind> kinds;
  std::vector<int32_t> tokens;
};

Case MakeCase(uint64_t seed) {
  Random random(seed);
  constexpr int64_t kColumns[] = {1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 513, 1000, 4099, 33'001};
  Case out;
  out.columns = kColumns[seed % std::size(kColumns)];
  const int rows = out.columns > 10'000 ? 3 : 6;
  for (int r = 0; r < rows; ++r) {
    const auto kind = static_cast<Kind>(random.Below(kKinds));
    const double scale = std::exp2(random() * 16 - 10);
    out.kinds.push_back(kind);
    MakeRow(kind, out.columns, scale, &random, &out.ref.emplace_back(), &out.cand.emplace_back());
    out.tokens.push_back(static_cast<int32_t>(random.Below(out.columns)));
  }
  return out;
}

RowProvider Provider(const Rows& rows) {
  auto flat = std::make_shared<std::vector<float>>();
  for (const auto& row : rows) flat->insert(flat->end(), row.begin(), row.end());
  RowBlock block;
  block.bytes = {reinterpret_cast<const uint8_t*>(flat->data()), flat->size() * 4};
  block.type = RowType::kF32;
  block.rows = rows.size();
  block.width = rows[0].size();
  block.owner = flat;
  return [block](size_t) -> absl::StatusOr<RowBlock> { return block; };
}

ReplayPlan PlanOf(const std::vector<const Rows*>& operands, const std::vector<int32_t>& tokens) {
  ReplayPlan plan;
  for (size_t o = 0; o < operands.size(); ++o) {
    std::string id("o");
    id += std::to_string(o);
    plan.operands.push_back({id, OperandKind::kLogits, Provider(*operands[o])});
    if (o > 0) plan.comparisons.push_back({id, {"o0", ""}, {id, ""}});
  }
  plan.contexts.push_back({0, tokens});
  plan.row_tile = 4;
  return plan;
}

ReplayRows Score(const Rows& ref, const Rows& cand, const std::vector<int32_t>& tokens,
                 int ranks = 1) {
  auto result = RunOnRanks(PlanOf({&ref, &cand}, tokens), ranks, 1);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->rows[0][0];
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

bool SameBits(const ReplayRows& a, const ReplayRows& b) {
  for (int k = 0; k < kReplayF64Count; ++k) {
    if (!SameBits(a.f64[k], b.f64[k])) return false;
  }
  for (int k = 0; k < kReplayI32Count; ++k) {
    if (!SameBits(a.i32[k], b.i32[k])) return false;
  }
  return true;
}

std::vector<double> Wide(const std::vector<float>& row) { return {row.begin(), row.end()}; }

// The tolerance.
void ExpectNear(double got, double want, const std::string& what) {
  if (std::isinf(want) || std::isnan(want)) {
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << what << " " << got;
    return;
  }
  EXPECT_LE(std::fabs(got - want), 1e-9 + 1e-7 * std::fabs(want))
      << what << ": " << got << " for " << want;
}

class Property : public ::testing::TestWithParam<int> {
 protected:
  const Case case_ = MakeCase(static_cast<uint64_t>(GetParam()));
};

// What is reached, in units of 1e-13 of max(|value|, 1e-3).
double& Worst() {
  static double worst = 0;
  return worst;
}

TEST_P(Property, ValuesAreThoseOfTheDefinitions) {
  const ReplayRows got = Score(case_.ref, case_.cand, case_.tokens, 2);
  for (size_t r = 0; r < case_.ref.size(); ++r) {
    const QuadRow want = LongMetric(Wide(case_.ref[r]), Wide(case_.cand[r]), 0, case_.tokens[r]);
    for (int k = 0; k < kReplayF64Count; ++k) {
      const auto value = static_cast<double>(want.f64[k]);
      ExpectNear(got.f64[k][r], value, std::string(kReplayF64Names[k]));
      if (!std::isfinite(value)) continue;
      Worst() =
          std::max(Worst(), std::fabs(got.f64[k][r] - value) / std::max(std::fabs(value), 1e-3));
    }
    for (int k = 0; k < kReplayI32Count; ++k) {
      EXPECT_EQ(got.i32[k][r], want.i32[k]) << kReplayI32Names[k] << " kind " << case_.kinds[r];
    }
    for (const int k : {0, 1, 2, 8}) EXPECT_GE(got.f64[k][r], 0.0) << kReplayF64Names[k];
    EXPECT_LE(got.f64[8][r], 1.0);
    for (const int k : {5, 6}) EXPECT_GE(got.f64[k][r], 0.0) << kReplayF64Names[k];
  }
}

TEST_P(Property, SelfIsExactlyZero) {
  for (const Rows* rows : {&case_.ref, &case_.cand}) {
    const ReplayRows got = Score(*rows, *rows, case_.tokens);
    for (const int k : {0, 1, 2, 7}) {
      // Not -0.0 either.
      EXPECT_TRUE(SameBits(got.f64[k], std::vector<double>(rows->size(), 0.0)))
          << kReplayF64Names[k];
    }
    EXPECT_THAT(got.f64[8], ::testing::Each(1.0));
    EXPECT_THAT(got.i32[4], ::testing::Each(0));
    EXPECT_TRUE(SameBits(got.f64[3], got.f64[4]) && SameBits(got.f64[5], got.f64[6]));
  }
}

TEST_P(Property, SwappingOperandsSwapsDirectionsBitForBit) {
  ReplayPlan plan = PlanOf({&case_.ref, &case_.cand}, case_.tokens);
  plan.comparisons.push_back({"swapped", {"o1", ""}, {"o0", ""}});
  plan.allow_infinite = true;
  const auto result = RunOnRanks(plan, 1, 1);
  ASSERT_TRUE(result.ok()) << result.status();
  const ReplayRows& a = result->rows[0][0];
  const ReplayRows& b = result->rows[1][0];
  for (const auto& [x, y] :
       {std::pair(0, 1), {1, 0}, {2, 2}, {3, 4}, {4, 3}, {5, 6}, {6, 5}, {8, 8}}) {
    EXPECT_TRUE(SameBits(a.f64[x], b.f64[y])) << kReplayF64Names[x];
  }
  for (const auto& [x, y] : {std::pair(0, 1), {1, 0}, {2, 3}, {3, 2}}) {
    EXPECT_EQ(a.i32[x], b.i32[y]) << kReplayI32Names[x];
  }
  for (size_t r = 0; r < a.f64[7].size(); ++r) EXPECT_EQ(a.f64[7][r], -b.f64[7][r]);
}

// Where the sums are exact in fp32 nothing changes at all; else as much as the logits were rounded.
TEST_P(Property, AConstantAddedToAllLogitsChangesNothingBeyondRounding) {
  Rows ref = case_.ref, cand = case_.cand;
  for (Rows* rows : {&ref, &cand}) {
    for (auto& row : *rows) {
      for (float& x : row) x = std::isfinite(x) ? std::nearbyint(std::fmod(x, 64.f) * 64) / 64 : x;
    }
  }
  const ReplayRows before = Score(ref, cand, case_.tokens);
  for (const float constant : {512.0f, -4096.0f, 0.015625f}) {
    Rows moved = ref, moved_cand = cand;
    for (auto& row : moved) {
      for (float& x : row) x += constant;
    }
    for (auto& row : moved_cand) {
      for (float& x : row) x += 3 * constant;
    }
    EXPECT_TRUE(SameBits(before, Score(moved, moved_cand, case_.tokens))) << constant;
  }
  Rows rounded = ref;
  for (auto& row : rounded) {
    for (float& x : row) x += 1000.1f;
  }
  const ReplayRows after = Score(rounded, cand, case_.tokens);
  constexpr double kRounding = 0x1p-13;  // half a unit of 2,048, both signs
  for (size_t r = 0; r < ref.size(); ++r) {
    if (std::isinf(before.f64[3][r])) {
      EXPECT_EQ(after.f64[3][r], before.f64[3][r]);
    } else {
      EXPECT_NEAR(after.f64[3][r], before.f64[3][r], 2 * kRounding) << "nll";
    }
    EXPECT_NEAR(after.f64[2][r], before.f64[2][r], 2 * kRounding) << "jsd";
    EXPECT_NEAR(after.f64[8][r], before.f64[8][r], 2 * kRounding) << "accept";
  }
}

TEST_P(Property, PermutingColumnsAcrossLeavesStaysWithinTolerance) {
  Random random(static_cast<uint64_t>(GetParam()) + 900);
  std::vector<int32_t> order(static_cast<size_t>(case_.columns));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  const auto permuted = [&](const Rows& rows) {
    Rows out;
    for (const auto& row : rows) {
      std::vector<float>& to = out.emplace_back();
      for (const int32_t from : order) to.push_back(row[from]);
    }
    return out;
  };
  std::vector<int32_t> tokens;
  for (const int32_t token : case_.tokens) {
    tokens.push_back(
        static_cast<int32_t>(std::find(order.begin(), order.end(), token) - order.begin()));
  }
  const ReplayRows a = Score(case_.ref, case_.cand, case_.tokens);
  const ReplayRows b = Score(permuted(case_.ref), permuted(case_.cand), tokens);
  for (size_t r = 0; r < case_.ref.size(); ++r) {
    for (int k = 0; k < kReplayF64Count; ++k) {
      if (!std::isfinite(a.f64[k][r])) {
        EXPECT_EQ(a.f64[k][r], b.f64[k][r]) << kReplayF64Names[k];
        continue;
      }
      // Far inside the tolerance: only the order of sums changed.
      EXPECT_LE(std::fabs(a.f64[k][r] - b.f64[k][r]), 1e-15 + 1e-13 * std::fabs(a.f64[k][r]))
          << kReplayF64Names[k] << " kind " << case_.kinds[r];
    }
    EXPECT_EQ(a.i32[2][r], b.i32[2][r]);
    EXPECT_EQ(a.i32[3][r], b.i32[3][r]);
    if (a.i32[2][r] > 1 || a.i32[3][r] > 1) continue;  // the lowest id wins a tie
    EXPECT_EQ(a.i32[0][r], order[static_cast<size_t>(b.i32[0][r])]);
    EXPECT_EQ(a.i32[1][r], order[static_cast<size_t>(b.i32[1][r])]);
  }
}

// The second pass cut into any leaves: their sums are the whole's.
TEST_P(Property, SumsOverLeavesEqualTheWhole) {
  for (size_t r = 0; r < case_.ref.size(); ++r) {
    const float* const a = case_.ref[r].data();
    const float* const b = case_.cand[r].data();
    SideLeaf whole[2];
    Kernels().side_f32(a, case_.columns, 0, 0, nullptr, &whole[0]);
    Kernels().side_f32(b, case_.columns, 0, 0, nullptr, &whole[1]);
    const auto log_sum = [](const SideLeaf& s) {
      return Kernels().log1p(s.tail + static_cast<double>(s.ties - 1));
    };
    PairRow row{whole[0].max,
                whole[1].max,
                log_sum(whole[0]),
                log_sum(whole[1]),
                static_cast<double>(b[whole[0].argmax]),
                whole[0].argmax};
    PairLeaf pair;
    Kernels().pair_f32(a, b, case_.columns, 0, row, &pair);
    for (const int64_t size : {int64_t{1}, int64_t{5}, int64_t{64}, int64_t{1000}}) {
      if (case_.columns / size > 5000) continue;
      PairLeaf sum{};
      int64_t beats = 0;
      std::vector<Leaf> leaves;
      std::vector<SideLeaf> sides;
      for (int64_t at = 0; at < case_.columns; at += size) {
        const int64_t n = std::min(size, case_.columns - at);
        PairRow part = row;
        part.threshold_column -= at;
        PairLeaf out;
        Kernels().pair_f32(a + at, b + at, n, 0, part, &out);
        sum.kl_ref_cand += out.kl_ref_cand;
        sum.kl_cand_ref += out.kl_cand_ref;
        sum.jsd += out.jsd;
        sum.accept += out.accept;
        sum.variation += out.variation;
        beats += out.beats;
        leaves.push_back({static_cast<uint64_t>(at), static_cast<uint64_t>(at + n)});
        Kernels().side_f32(a + at, n, 0, -1, nullptr, &sides.emplace_back());
      }
      const auto near = [&](double got, double want, const char* what) {
        EXPECT_LE(std::fabs(got - want), 1e-13 * std::fabs(want) + 1e-300)
            << what << " leaves of " << size << " kind " << case_.kinds[r];
      };
      near(sum.kl_ref_cand, pair.kl_ref_cand, "kl_ref_cand");
      near(sum.kl_cand_ref, pair.kl_cand_ref, "kl_cand_ref");
      near(sum.jsd, pair.jsd, "jsd");
      near(sum.accept, pair.accept, "accept");
      near(sum.variation, pair.variation, "variation");
      EXPECT_EQ(beats, pair.beats);
      const SideRow combined = CombineSide(leaves, sides, -1);
      EXPECT_EQ(combined.max, whole[0].max);
      EXPECT_EQ(combined.argmax, whole[0].argmax);
      EXPECT_EQ(combined.ties, whole[0].ties);
      near(combined.log_sum, row.log_sum_ref, "log_sum");
    }
  }
}

TEST_P(Property, CandidatesTogetherAreCandidatesAlone) {
  const Case second = [&] {
    Case out = case_;
    for (auto& row : out.cand) std::rotate(row.begin(), row.begin() + row.size() / 2, row.end());
    return out;
  }();
  ReplayPlan plan = PlanOf({&case_.ref, &case_.cand, &second.cand, &case_.ref}, case_.tokens);
  plan.allow_infinite = true;  // rotated -inf columns
  const auto together = RunOnRanks(plan, 4, 1);
  ASSERT_TRUE(together.ok()) << together.status();
  for (size_t c = 0; c < plan.comparisons.size(); ++c) {
    ReplayPlan one = plan;
    one.comparisons = {plan.comparisons[c]};
    const auto alone = RunOnRanks(one, 1, 1);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_TRUE(SameBits(alone->rows[0][0], together->rows[c][0])) << plan.comparisons[c].id;
  }
}

// The last row of a context has a next token like any other; a row that has none (-1) lacks NLL and
// delta_p and nothing else.
TEST_P(Property, ARowWithoutANextTokenLacksOnlyWhatNeedsIt) {
  const ReplayRows with = Score(case_.ref, case_.cand, case_.tokens);
  std::vector<int32_t> tokens = case_.tokens;
  tokens.back() = -1;
  const ReplayRows without = Score(case_.ref, case_.cand, tokens, 2);
  const size_t last = tokens.size() - 1;
  for (int k = 0; k < kReplayF64Count; ++k) {
    const bool needs = k == 3 || k == 4 || k == 7;
    for (size_t r = 0; r < tokens.size(); ++r) {
      if (needs && r == last) {
        EXPECT_TRUE(std::isnan(without.f64[k][r])) << kReplayF64Names[k];
        EXPECT_FALSE(std::isnan(with.f64[k][r])) << kReplayF64Names[k];
      } else {
        EXPECT_EQ(with.f64[k][r], without.f64[k][r]) << kReplayF64Names[k];
      }
    }
  }
  EXPECT_EQ(with.i32, without.i32);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Property, ::testing::Range(0, 42));

// Adversarial rows at the size of the largest vocabularies: sums of 248,320 terms in fp64, 8 lanes
// and a tree stay 10^4 times inside the tolerance, so nothing need be compensated.
TEST(LargeVocabulary, SumsKeepTheBoundAt248320Columns) {
  constexpr int64_t kColumns = 248'320;
  Random random(77);
  Rows ref, cand;
  const auto add = [&](const std::function<std::pair<double, double>(int64_t)>& at) {
    ref.emplace_back();
    cand.emplace_back();
    for (int64_t v = 0; v < kColumns; ++v) {
      const auto [a, b] = at(v);
      ref.back().push_back(static_cast<float>(a));
      cand.back().push_back(static_cast<float>(b));
    }
  };
  // All terms alike, so that rounding errors of sums have one sign.
  add([](int64_t) { return std::pair(0.3, 0.7); });
  // Uniform against nearly uniform: KL of 1e-9 from 248,320 tiny terms.
  add([&](int64_t) { return std::pair(0.0, 4e-5 * random.Normal()); });
  // A winner of probability 1 - 1e-10 above a tail of equals, and less of it.
  add([](int64_t v) { return std::pair(v == 99'999 ? 35.5 : 0.0, v == 99'999 ? 35.0 : 0.0); });
  // Ascending probabilities over 30 nats: every addend is larger than the one before.
  add([](int64_t v) { return std::pair(v * 1.2e-4, v * 1.2e-4 + 1e-3 * (v % 7)); });
  // Descending: small addends onto a large sum.
  add([](int64_t v) { return std::pair(-v * 1.2e-4, -v * 1.1e-4); });
  // Ordinary.
  add([&](int64_t) {
    const double a = 3 * random.Normal();
    return std::pair(a, a + 0.1 * random.Normal());
  });
  const std::vector<int32_t> tokens = {0, 7, 99'999, 248'319, 5, 124'160};
  const ReplayRows got = Score(ref, cand, tokens, 2);
  double worst = 0;
  for (size_t r = 0; r < ref.size(); ++r) {
    const QuadRow want = LongMetric(Wide(ref[r]), Wide(cand[r]), 0, tokens[r]);
    for (int k = 0; k < kReplayF64Count; ++k) {
      const auto value = static_cast<double>(want.f64[k]);
      const double error = std::fabs(got.f64[k][r] - value);
      // 10^4 below the tolerance of 1e-9 + 1e-7 |value|.
      EXPECT_LE(error, 1e-13 + 1e-11 * std::fabs(value))
          << kReplayF64Names[k] << " row " << r << ": " << got.f64[k][r] << " for " << value;
      worst = std::max(worst, error / std::max(std::fabs(value), 1e-3));
    }
    for (int k = 0; k < kReplayI32Count; ++k) {
      EXPECT_EQ(got.i32[k][r], want.i32[k]) << kReplayI32Names[k] << " row " << r;
    }
  }
  std::printf("248,320 columns: largest error %.1e of max(|value|, 1e-3)\n", worst);
}

class PrintWorst : public ::testing::Environment {
 public:
  void TearDown() override {
    std::printf("random and adversarial rows: largest error %.1e of max(|value|, 1e-3)\n", Worst());
  }
};

const auto* const kPrint = ::testing::AddGlobalTestEnvironment(new PrintWorst);

}  // namespace
}  // namespace assay
