// The same bits however the work is cut, and tests that would see it if they were not.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string_view>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "worker/replay/combine.h"
#include "worker/replay/leaves.h"
#include "worker/replay/logits.h"
#include "worker/replay/passes.h"
#include "worker/replay/prepare.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

// 35,003 columns: sixteen leaves of 2,187 and 2,188.
constexpr uint64_t kUnevenVocab = 35'003;

ProblemShape UnevenShape() { return {kUnevenVocab, 40, {23, 5}, 2, true}; }

TEST(Leaves, DependOnTheVocabularyAloneAndCoverIt) {
  for (const uint64_t columns : {1, 7, 8, 97, 32'768, 32'769, 49'152, 248'320}) {
    const std::vector<Leaf> leaves = CutLeaves(columns);
    EXPECT_GE(leaves.size(), std::min<uint64_t>(columns, 8));
    EXPECT_EQ(leaves.front().begin, 0u);
    EXPECT_EQ(leaves.back().end, columns);
    for (size_t l = 0; l < leaves.size(); ++l) {
      EXPECT_GT(leaves[l].columns(), 0u);
      EXPECT_LE(leaves[l].columns(), kLeafColumnsMax);
      EXPECT_EQ(leaves[l].begin, l > 0 ? leaves[l - 1].end : 0);
    }
    for (const int size : {1, 2, 4, 8}) {
      uint64_t next = 0;
      for (int r = 0; r < size; ++r) {
        const LeafRange range = LeavesOfRank(leaves.size(), r, size);
        EXPECT_EQ(range.first, next);
        next = range.last;
      }
      EXPECT_EQ(next, leaves.size());
    }
  }
}

class Invariance : public ::testing::TestWithParam<ReplayBackend> {};

TEST_P(Invariance, ThreadsTilesAndRanksDoNotMatter) {
  const auto problem = MakeProblem(UnevenShape(), 5);
  problem->plan.backend = GetParam();
  const auto whole = RunOnRanks(problem->plan, 1, 1);
  if (ReasonOf(whole.status()) == "BACKEND_UNAVAILABLE") GTEST_SKIP() << whole.status();
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string expected = BytesOf(*whole);
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int threads : {1, 2}) {
      for (const uint64_t tile : {1, 16, 64, 0}) {
        if (tile == 1 && threads == 2) continue;
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, " << threads << " threads, tile " << tile);
        problem->plan.row_tile = tile;
        const auto result = RunOnRanks(problem->plan, ranks, threads);
        ASSERT_TRUE(result.ok()) << result.status();
        ASSERT_TRUE(BytesOf(*result) == expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Invariance,
                         ::testing::Values(ReplayBackend::kCpuBf16, ReplayBackend::kCpuF32),
                         [](const auto& info) {
                           return info.param == ReplayBackend::kCpuBf16 ? "CpuBf16" : "CpuF32";
                         });

TEST(Invariance, GroupingOfContextsAndCandidatesDoesNotMatter) {
  const auto problem = MakeProblem(UnevenShape(), 6);
  const auto whole = RunOnRanks(problem->plan, 1, 2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (size_t context = 0; context < problem->plan.contexts.size(); ++context) {
    for (size_t c = 0; c < problem->plan.comparisons.size(); ++c) {
      ReplayPlan part = problem->plan;
      part.contexts = {problem->plan.contexts[context]};
      part.comparisons = {problem->plan.comparisons[c]};
      for (ReplayOperand& o : part.operands) {
        o.rows = [all = o.rows, context](size_t) { return all(context); };
      }
      const auto alone = RunOnRanks(part, 2, 1);
      ASSERT_TRUE(alone.ok()) << alone.status();
      for (int k = 0; k < kReplayF64Count; ++k) {
        EXPECT_EQ(alone->rows[0][0].f64[k], whole->rows[c][context].f64[k]) << kReplayF64Names[k];
      }
      for (int k = 0; k < kReplayI32Count; ++k) {
        EXPECT_EQ(alone->rows[0][0].i32[k], whole->rows[c][context].i32[k]) << kReplayI32Names[k];
      }
    }
  }
}

TEST(Invariance, GlooRanksGiveTheSameBits) {
  const auto problem = MakeProblem({997, 64, {9}, 1, false}, 7);
  const auto expected = RunOnRanks(problem->plan, 1, 1);
  ASSERT_TRUE(expected.ok());
  std::string folder = ::testing::TempDir() + "assay-replay-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      CollectiveOptions options;
      options.rank = r;
      options.size = 3;
      options.rendezvous = folder;
      options.backend = "gloo";
      auto gloo = CreateCollective(options);
      ASSERT_TRUE(gloo.ok()) << gloo.status();
      const auto result = RunReplay(problem->plan, **gloo, 1, nullptr, nullptr);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(BytesOf(*result) == BytesOf(*expected));
      EXPECT_TRUE((*gloo)->Barrier().ok());
    });
  }
  for (std::thread& t : ranks) t.join();
  EXPECT_TRUE(RemoveTree(folder).ok());
}

// First-pass partials [source][row][leaf] and second-pass sums of a problem, by the same steps as a
// replay.
struct Passes {
  Job job;
  std::vector<SideLeaf> partials;
  std::vector<SideRow> sides;
  uint64_t rows = 0;
};

Passes FirstPassOf(const ReplayPlan& plan) {
  Passes out;
  auto single = CreateCollective({}).value();
  out.job = ResolveJob(plan, 0, 1).value();
  HeadStore store;
  ThreadPool pool(1);
  const Prepared prepared = PrepareRun(out.job, &store, pool, *single).value();
  OperandRows rows;
  EXPECT_TRUE(rows.Load(out.job, 0, prepared.backend).ok());
  Tile tile;
  out.rows = plan.contexts[0].observed.size();
  tile.Reset(out.job, 0, 0, out.rows);
  EXPECT_TRUE(FillTile(rows, prepared.heads, pool, true, &tile, &out.partials).ok());
  out.sides = CombineSides(tile, out.partials);
  return out;
}

// The problem is sensitive: summing leaves from left to right, from right to left, or without the
// last one changes bits.
TEST(Invariance, AnotherMergeOrderOrADroppedLeafWouldBeSeen) {
  const auto problem = MakeProblem(UnevenShape(), 5);
  const Passes p = FirstPassOf(problem->plan);
  const size_t leaves = p.job.leaves.size();
  ASSERT_EQ(leaves, 16u);
  int order = 0, reversed = 0, dropped = 0, swapped = 0;
  for (uint64_t item = 0; item < p.sides.size(); ++item) {
    std::vector<SideLeaf> own(p.partials.begin() + item * leaves,
                              p.partials.begin() + (item + 1) * leaves);
    std::vector<double> values;
    for (const SideLeaf& leaf : own) values.push_back(leaf.tail);
    const double tree = TreeSum(values);
    double left = 0, right = 0;
    for (const double v : values) left += v;
    for (size_t l = leaves; l-- > 0;) right += values[l];
    order += left != tree;
    reversed += right != tree;
    const auto entropy = [&](std::span<const SideLeaf> some) {
      return CombineSide({p.job.leaves.begin(), p.job.leaves.begin() + some.size()}, some, -1)
          .entropy;
    };
    dropped += entropy(std::span(own).first(leaves - 1)) != p.sides[item].entropy;
    std::swap(own[1], own[leaves - 2]);
    swapped += entropy(own) != p.sides[item].entropy;
  }
  EXPECT_GT(order, 0);
  EXPECT_GT(reversed, 0);
  EXPECT_GT(swapped, 0);
  EXPECT_EQ(dropped, static_cast<int>(p.sides.size()));
}

TEST(Replay, SelfCompareIsExactlyZero) {
  const auto problem = MakeProblem({5'003, 48, {31}, 1, false}, 8);
  problem->plan.comparisons = {{"self", {"o0", "h0"}, {"o0", "h0"}}};
  const auto result = RunOnRanks(problem->plan, 2, 1);
  ASSERT_TRUE(result.ok()) << result.status();
  const ReplayRows& rows = result->rows[0][0];
  for (const int k : {0, 1, 2, 7}) EXPECT_THAT(rows.f64[k], ::testing::Each(0.0));
  EXPECT_THAT(rows.f64[8], ::testing::Each(1.0));
  EXPECT_THAT(rows.i32[4], ::testing::Each(0));
  EXPECT_EQ(rows.i32[0], rows.i32[1]);
  EXPECT_EQ(rows.f64[3], rows.f64[4]);
}

TEST(Replay, SwappingOperandsSwapsDirectionsBitForBit) {
  const auto problem = MakeProblem({5'003, 48, {31}, 1, false}, 9);
  problem->plan.comparisons.push_back({"swapped", {"o1", "h0"}, {"o0", "h0"}});
  const auto result = RunOnRanks(problem->plan, 1, 2);
  ASSERT_TRUE(result.ok()) << result.status();
  const ReplayRows& a = result->rows[0][0];
  const ReplayRows& b = result->rows[1][0];
  EXPECT_EQ(a.f64[0], b.f64[1]);
  EXPECT_EQ(a.f64[1], b.f64[0]);
  EXPECT_EQ(a.f64[2], b.f64[2]);
  EXPECT_EQ(a.f64[3], b.f64[4]);
  EXPECT_EQ(a.f64[5], b.f64[6]);
  EXPECT_EQ(a.f64[8], b.f64[8]);
  EXPECT_EQ(a.i32[0], b.i32[1]);
  for (size_t i = 0; i < a.f64[7].size(); ++i) EXPECT_EQ(a.f64[7][i], -b.f64[7][i]);
  EXPECT_GT(a.f64[0][0], 0.0);
}

TEST(Replay, CountersFallWithTheNumberOfRanks) {
  const auto problem = MakeProblem({4'096, 64, {10, 6}, 2, true}, 10);
  uint64_t whole = 0;
  for (const int ranks : {1, 2, 4, 8}) {
    std::vector<ReplayCounters> counters;
    ASSERT_TRUE(RunOnRanks(problem->plan, ranks, 1, &counters).ok());
    // Four products (reference, two candidates, one more through its own head); two heads.
    for (const ReplayCounters& c : counters) {
      EXPECT_EQ(c.multiply_adds, 16u * 4 * 4'096 * 64 / ranks);
      EXPECT_EQ(c.weight_bytes, 2u * 4'096 * 64 * 2 / ranks);
      whole = std::max(whole, c.multiply_adds);
    }
  }
  EXPECT_EQ(whole, 16u * 4 * 4'096 * 64);
}

TEST(Replay, ProgressCanCancel) {
  const auto problem = MakeProblem({97, 16, {8, 8}, 1, false}, 11);
  problem->plan.row_tile = 2;
  auto single = CreateCollective({}).value();
  uint64_t last = 0;
  const auto result = RunReplay(
      problem->plan, *single, 1,
      [&](uint64_t done, uint64_t total) {
        EXPECT_EQ(total, 16u);
        last = done;
        return done < 6;
      },
      nullptr);
  EXPECT_EQ(ReasonOf(result.status()), "REPLAY_CANCELLED");
  EXPECT_EQ(last, 6u);
}

TEST(Replay, BadPlansAreRefusedByName) {
  const auto problem = MakeProblem({97, 16, {4}, 1, false}, 12);
  const auto reason = [&](const std::function<void(ReplayPlan&)>& change) {
    ReplayPlan plan = problem->plan;
    change(plan);
    return ReasonOf(RunOnRanks(plan, 1, 1).status());
  };
  EXPECT_EQ(reason([](ReplayPlan& p) { p.comparisons[0].cand.operand = "x"; }), "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.comparisons[0].cand.head = "x"; }), "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.comparisons.clear(); }), "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.softcap = -1; }), "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.valid_vocab = 98; }), "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.heads[0].bytes = p.heads[0].bytes.first(10); }),
            "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.operands[1].id = "o0"; }), "PLAN_INVALID");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.contexts[0].observed.push_back(1); }), "SHAPE_MISMATCH");
  EXPECT_EQ(reason([](ReplayPlan& p) { p.contexts[0].observed[3] = 97; }), "TOKEN_OUT_OF_RANGE");
}

TEST(Replay, AMissingRowProviderStopsEveryRank) {
  const auto problem = MakeProblem({97, 16, {4}, 1, false}, 13);
  auto group = CreateThreadCollectives(2, 20'000);
  ReplayPlan broken = problem->plan;
  broken.operands[1].rows = [](size_t) -> absl::StatusOr<RowBlock> {
    return NotFoundError("FILE_MISSING", "gone");
  };
  absl::Status other;
  std::thread peer(
      [&] { other = RunReplay(problem->plan, *group[1], 1, nullptr, nullptr).status(); });
  EXPECT_EQ(ReasonOf(RunReplay(broken, *group[0], 1, nullptr, nullptr).status()), "FILE_MISSING");
  peer.join();
  EXPECT_EQ(ReasonOf(other), "COLLECTIVE_FAILED");
}

// A block of 1.4 MB is scanned in pieces, from the last two of which something is wrong.
TEST(Replay, TheFirstBadHiddenStateIsNamedHoweverTheScanIsShared) {
  const auto problem = MakeProblem({97, 512, {1'400}, 1, false}, 16);
  constexpr uint16_t kNan = 0x7fc0, kInfinity = 0x7f80;
  problem->operands[1][0][1'390 * 512 + 3] = kNan;
  problem->operands[1][0][700 * 512 + 511] = kInfinity;
  problem->operands[1][0][701 * 512] = kNan;
  for (const int ranks : {1, 2}) {
    for (const int threads : {1, 3}) {
      const absl::Status status = RunOnRanks(problem->plan, ranks, threads).status();
      ASSERT_TRUE(RefusalOf(status).has_value()) << status;
      EXPECT_EQ(RefusalOf(status)->operand, "o1");
      EXPECT_EQ(RefusalOf(status)->position, 700);
      EXPECT_EQ(RefusalOf(status)->column, 511);
    }
  }
}

// Ranks meet a tile late: what they refuse, and in which order, must not show it.
TEST(Replay, InfinitePositionsAreNamedBeforeLaterContextsAndAfterTheirOwn) {
  const auto problem = MakeProblem({97, 16, {5, 4}, 1, false}, 17);
  std::vector<std::vector<float>> logits(2, std::vector<float>(5 * 97, 0.0f));
  for (size_t i = 0; i < logits[0].size(); ++i) {
    logits[0][i] = logits[1][i] = static_cast<float>(i % 13);
  }
  logits[1][2 * 97 + 50] = -INFINITY;  // context 0, row 2, as row 2 of context 1
  ReplayPlan& plan = problem->plan;
  for (size_t o = 0; o < 2; ++o) {
    plan.operands[o].kind = OperandKind::kLogits;
    plan.operands[o].rows = [&logits, &plan, o](size_t c) -> absl::StatusOr<RowBlock> {
      const uint64_t rows = plan.contexts[c].observed.size();
      return RowBlock{{reinterpret_cast<const uint8_t*>(logits[o].data()), rows * 97 * 4},
                      RowType::kF32,
                      rows,
                      97,
                      nullptr};
    };
  }
  plan.valid_vocab = 97;
  for (const uint64_t tile : {1, 2, 0}) {
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, tile " << tile);
      plan.row_tile = tile;
      plan.contexts[1].observed[0] = 97;  // out of range, and later
      const auto infinite = RefusalOf(RunOnRanks(plan, ranks, 1).status());
      ASSERT_TRUE(infinite.has_value());
      EXPECT_EQ(infinite->reason, "INFINITE_POSITION");
      EXPECT_EQ(infinite->context, plan.contexts[0].index);
      EXPECT_EQ(infinite->position, 2);
      EXPECT_EQ(infinite->column, 50);
      logits[0][4 * 97 + 7] = NAN;  // later in the same context: named first
      const auto bad = RefusalOf(RunOnRanks(plan, ranks, 1).status());
      logits[0][4 * 97 + 7] = 1;
      ASSERT_TRUE(bad.has_value());
      EXPECT_EQ(bad->reason, "NON_FINITE_INPUT");
      EXPECT_EQ(bad->position, 4);
      plan.contexts[1].observed[0] = 1;
    }
  }
}

// What /proc/cpuinfo says, independently of oneDNN.
bool CpuHasAmx() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return text.find(" amx_bf16") != std::string::npos && text.find(" amx_tile") != std::string::npos;
}

TEST(Replay, IdentityIsStableAndNamesTheInstructionSet) {
  const auto a = ReplayEngine::Create(1), b = ReplayEngine::Create(3);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ((*a)->identity().self_test_sha256_f32, (*b)->identity().self_test_sha256_f32);
  EXPECT_EQ((*a)->identity().self_test_sha256_f32.size(), 64u);
  // AMX where the CPU has it, unless it is asked to do without.
  const char* asked = std::getenv("ASSAY_REPLAY_ISA");
  if (asked != nullptr && std::string_view(asked) == "avx512_core_bf16") {
    EXPECT_NE((*a)->identity().onednn_isa, "avx512_core_amx");
  } else if (CpuHasAmx()) {
    EXPECT_EQ((*a)->identity().onednn_isa, "avx512_core_amx");
  }
}

// Every row may leave memory after the scan and again after packing, and a kept head is not read.
TEST(Replay, HeadRowsAreReleasedOnceTheyAreRead) {
  const auto problem = MakeProblem({997, 24, {5}, 1, false}, 15);
  ReplayHead& head = problem->plan.heads[0];
  head.cache_key = "head";
  std::mutex mutex;
  std::vector<int> released(head.vocab);
  head.release = [&](std::span<const uint8_t> bytes) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto first = static_cast<size_t>(bytes.data() - head.bytes.data()) / (head.hidden * 2);
    for (size_t row = 0; row < bytes.size() / (head.hidden * 2); ++row) ++released[first + row];
  };
  auto single = CreateCollective({}).value();
  auto engine = ReplayEngine::Create(2).value();
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(engine->Run(problem->plan, *single, nullptr, nullptr).ok());
    EXPECT_THAT(released, ::testing::Each(2));
  }
}

TEST(Replay, KeptHeadsGiveTheSameBits) {
  const auto problem = MakeProblem({997, 24, {5}, 1, false}, 14);
  problem->plan.heads[0].cache_key = "head";
  auto single = CreateCollective({}).value();
  auto engine = ReplayEngine::Create(2).value();
  const auto first = engine->Run(problem->plan, *single, nullptr, nullptr);
  const auto second = engine->Run(problem->plan, *single, nullptr, nullptr);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(BytesOf(*first) == BytesOf(*second));
  EXPECT_EQ(first->max_head[0].value, second->max_head[0].value);
}

}  // namespace
}  // namespace assay
