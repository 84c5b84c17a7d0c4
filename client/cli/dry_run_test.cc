// Costs of a run, and what assay score --dry-run says of the small models of tests/data.

#include <cstdlib>

#include "client/cli/cli_test_util.h"
#include "client/cli/dry_run_costs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

OperandCost SmolOperand(bool same_head) {
  OperandCost cost;
  cost.same_head = same_head;
  cost.body_weights = 106168320;
  cost.embedding_weights = 28311552;
  cost.layers = 30;
  cost.attention_width = 576;
  cost.vocab = 49152;
  cost.hidden = 576;
  cost.file_bytes = 98000000;
  return cost;
}

// 8 contexts of 128 tokens: an execution record of this shape counted 113,246,208,000 multiply-adds
// for each capture, and 115,058,147,328 for the replay of three candidates under the shared head.
TEST(DryRunCosts, WorkIsWhatRanksCount) {
  RunShape shape;
  shape.operands.assign(4, SmolOperand(true));
  shape.contexts = 8;
  shape.context_length = 128;
  shape.scored_per_context = 127;
  const RunCost cost = CostOf(shape);
  EXPECT_EQ(cost.capture_work, 4 * 113246208000.0);
  EXPECT_EQ(cost.replay_work, 115058147328.0);
  EXPECT_EQ(cost.read_bytes, 4u * 2 * 98000000);
  EXPECT_EQ(cost.result_bytes, 8u * 127 * 92 * 3 * 2);
  EXPECT_EQ(cost.capture_bytes, 4u * 8 * 128 * 576 * 2 * 2);
  // A head of its own is one more product, and one more comparison.
  shape.operands[1].same_head = false;
  EXPECT_EQ(CostOf(shape).replay_work, 115058147328.0 / 4 * 5);
  shape.shared = false;
  EXPECT_EQ(CostOf(shape).replay_work, 115058147328.0);
  // Captures are there already; sentinels are captured twice.
  shape.operands[0].capture = true;
  shape.sentinels = 4;
  EXPECT_EQ(CostOf(shape).capture_work, 3 * 1.5 * 113246208000.0);
}

TEST(DryRunCosts, RanksShareWhatCanBeShared) {
  RunShape shape;
  shape.operands.assign(2, SmolOperand(true));
  shape.contexts = 8;
  shape.context_length = 128;
  shape.scored_per_context = 127;
  const RunCost one = CostOf(shape);
  EXPECT_EQ(one.capture_memory, 4u * (106168320 + 28311552) + (256u << 20));
  EXPECT_EQ(one.replay_memory,
            2u * 49152 * 576 + 4u * 2 * 64 * 49152 + 2u * 2 * 2 * 128 * 576 + (96u << 20));
  shape.ranks = 2;
  EXPECT_EQ(CostOf(shape).capture_memory, 4u * (106168320 / 2 + 28311552) + (256u << 20));
  EXPECT_LT(CostOf(shape).replay_memory, one.replay_memory);
}

Json Unit(int id, const char* kind, double work, double ms, const char* outcome = "done") {
  return {{"unit", id},
          {"kind", kind},
          {"attempts",
           {{{"outcome", outcome},
             {"compute_ms", ms},
             {"counters", {{{"multiply_adds", work / 2}}, {{"multiply_adds", work / 2}}}},
             {"host", {{"cpu", "a CPU"}}}}}}};
}

TEST(DryRunCosts, RatesCountEveryUnitOnce) {
  const Json first = {
      {"units",
       {Unit(1, "prepare", 0, 900), Unit(2, "capture", 3e9, 1000), Unit(3, "repeat", 1e9, 1000),
        Unit(4, "replay", 8e9, 500), Unit(5, "capture", 9e9, 10, "failed")}}};
  const WorkRates rates = RatesOf({first, first, Json(), Json{{"units", "?"}}});
  EXPECT_EQ(rates.capture, 2e9);
  EXPECT_EQ(rates.replay, 16e9);
  EXPECT_EQ(rates.cpu, "a CPU");
  RunCost cost;
  cost.capture_work = 10e9;
  cost.replay_work = 32e9;
  EXPECT_EQ(SecondsOf(cost, rates, 1), 7.0);
  EXPECT_EQ(SecondsOf(cost, rates, 2), 3.5);
  EXPECT_EQ(SecondsOf(cost, {}, 1), std::nullopt);
  EXPECT_EQ(SecondsOf({}, rates, 1), std::nullopt) << "nothing is known of the work";
}

TEST(DryRunCosts, ResolutionFallsWithTheRootOfTheDocuments) {
  EXPECT_DOUBLE_EQ(*ResolvableShare(0.4, 64), 0.098);
  EXPECT_EQ(ResolvableShare(0.4, 7), std::nullopt);
  // Of the fixture: mean 0.00419756, interval [0.00360647, 0.00488035], 8 documents.
  const Json report = Must(BuildReport(SmolInputs("int8-channel")));
  EXPECT_NEAR(*SpreadOf(report.at("heads").at("own")), 0.21898, 1e-5);
}

class DryRunCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "dryXXXXXX";
    dir_ = mkdtemp(pattern.data());
    model_ = std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/arch/llama";
    suite_ = SmolDir() + "/suite";
    setenv("XDG_CACHE_HOME", dir_.c_str(), 1);
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }
  CliOutcome Dry(std::vector<std::string> more) {
    std::vector<std::string> all = {"score",  "--dry-run",    "--suite", suite_,
                                    "--data", dir_ + "/data", "--out",   dir_ + "/out"};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<const char*> args;
    for (const std::string& arg : all) args.push_back(arg.c_str());
    return Invoke(args);
  }
  std::string dir_, model_, suite_;
};

TEST_F(DryRunCommand, EveryProblemIsToldAtOnce) {
  ASSERT_TRUE(EnsureDirectory(dir_ + "/out/foreign").ok());
  const CliOutcome outcome = Dry({"--reference", dir_ + "/none.gguf", "--candidate",
                                  "a=" + dir_ + "/nothing", "--candidate", "b=" + model_});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PROBLEM  reference [MODEL_MISSING]"),
                    HasSubstr("PROBLEM  a [MODEL_MISSING]"), HasSubstr("PROBLEM  b [TOKEN_OUT_OF_"),
                    HasSubstr("PROBLEM  output [OUT_NOT_EMPTY]"),
                    HasSubstr("4 problems; nothing was started")));
  EXPECT_FALSE(IsDirectory(dir_ + "/out/a"));
}

TEST_F(DryRunCommand, WithoutASuiteTheModelsAreCheckedAllTheSame) {
  suite_ = dir_;
  const CliOutcome outcome =
      Dry({"--reference", model_, "--candidate", "a=" + dir_ + "/nothing", "--json"});
  EXPECT_EQ(outcome.code, 3);
  const Json json = Json::parse(outcome.out);
  ASSERT_EQ(json.at("problems").size(), 2u) << outcome.out;
  EXPECT_EQ(json.at("problems")[0].at("subject"), "suite");
  EXPECT_EQ(json.at("problems")[1].at("subject"), "a");
}

TEST_F(DryRunCommand, NothingIsStarted) {
  const std::string gguf =
      std::getenv("ASSAY_SMOLLM2_GGUF") == nullptr ? "" : std::getenv("ASSAY_SMOLLM2_GGUF");
  if (gguf.empty()) GTEST_SKIP() << "needs ASSAY_SMOLLM2_GGUF";
  const CliOutcome outcome =
      Dry({"--base", gguf, "--candidate", "int4=" + gguf + "@rtn:bits=4,group=32", "--rate", "10"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("504 in 8 contexts of 8 documents"),
                                 HasSubstr("as stated with --rate"), HasSubstr("assumed"),
                                 HasSubstr("Nothing was found that would stop it")));
  EXPECT_FALSE(IsDirectory(dir_ + "/out"));
}

}  // namespace
}  // namespace assay
