// assay report show: table, the closing block of llama-perplexity, the sealed bytes.

#include <cstdlib>

#include "client/cli/cli_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report_test_data.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReportShow : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "showXXXXXX";
    dir_ = mkdtemp(pattern.data());
    std::vector<SummaryCandidate> candidates;
    for (const auto& [label, name] :
         {std::pair("int8", "int8-channel"), {"int4", "int4-g32"}, {"q4", "q4_0"}}) {
      const ReportInputs inputs = SmolInputs(name);
      SummaryCandidate candidate;
      candidate.label = label;
      candidate.report = Must(BuildReport(inputs));
      const CandidateFiles files{Must(ReportBytes(candidate.report)),
                                 "{}",
                                 std::nullopt,
                                 {{"own", &inputs.heads.at("own").arrays}}};
      EXPECT_TRUE(WriteCandidateFiles(dir_, label, files).ok());
      candidates.push_back(candidate);
    }
    const Summary summary = Must(BuildSummary(candidates));
    EXPECT_TRUE(WriteSummaryFiles(dir_, summary, candidates, "").ok());
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }

  CliOutcome Show(const std::string& what, std::vector<const char*> more = {}) {
    const std::string path = dir_ + what;
    std::vector<const char*> args = {"report", "show", path.c_str()};
    args.insert(args.end(), more.begin(), more.end());
    return Invoke(args);
  }
  std::string dir_;
};

// tests/data/statistics/llamacpp-block.txt: make_llamacpp_block.py there.
TEST_F(ReportShow, TheBlockOfLlamaPerplexityComesOutToTheLastDigit) {
  const std::string expected = Must(ReadFile(
      std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/statistics/llamacpp-block.txt",
      1 << 16));
  const CliOutcome outcome = Show("/int8", {"--style", "llama.cpp"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.substr(0, expected.size()), expected);
  EXPECT_THAT(outcome.out, HasSubstr("[0.003606, 0.004880]"));
  EXPECT_THAT(outcome.out, HasSubstr("--score-from 32"));
}

TEST_F(ReportShow, ArraysThatAreNotTheReportsAreRefused) {
  const std::string file = dir_ + "/int8/positions/own/kl_ref_cand.f64";
  std::string bytes = Must(ReadFile(file, 1 << 20));
  bytes[100] ^= 1;
  ASSERT_TRUE(WriteFile(file, bytes).ok());
  EXPECT_THAT(Show("/int8", {"--style", "llama.cpp"}).err, HasSubstr("DIGEST_MISMATCH"));
  ASSERT_TRUE(RemoveTree(dir_ + "/int8/positions").ok());
  const CliOutcome gone = Show("/int8", {"--style", "llama.cpp"});
  EXPECT_EQ(gone.code, 3);
  EXPECT_THAT(gone.err, HasSubstr("FILE_MISSING"));
}

TEST_F(ReportShow, ATableForPeopleAndTheBytesForPrograms) {
  const CliOutcome table = Show("/int8");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("Mean KLD (nats)"));
  EXPECT_THAT(table.out, HasSubstr("0.00419756"));
  const std::string bytes = Must(ReadFile(dir_ + "/int8/report.json", 1 << 24));
  EXPECT_EQ(Show("/int8", {"--json"}).out, bytes + "\n");
  EXPECT_EQ(Show("/int8/report.json", {"--style", "json"}).out, bytes + "\n");
}

TEST_F(ReportShow, AWholeRunAgainstTheCandidateThatIsAsked) {
  const CliOutcome best = Show("");
  EXPECT_THAT(best.out, HasSubstr("Mean KLD minus that of int8"));
  const CliOutcome named = Show("", {"--versus", "q4"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("Mean KLD minus that of q4"));
  EXPECT_THAT(named.out, Not(HasSubstr("The best one was chosen")));
  EXPECT_EQ(Show("", {"--versus", "q5"}).code, 2);
  EXPECT_THAT(Show("", {"--style", "llama.cpp"}).out, HasSubstr("\nint4\n====== Perplexity"));
}

TEST_F(ReportShow, AResultUnderALimitSaysThatItIsPartial) {
  EXPECT_THAT(Show("/int8").out, Not(HasSubstr("PARTIAL")));
  ReportInputs inputs = SmolInputs("int8-channel");
  inputs.suite.limit = static_cast<int64_t>(inputs.contexts.size());
  inputs.suite.suite_contexts += 92;
  ASSERT_TRUE(
      WriteFile(dir_ + "/int8/report.json", Must(ReportBytes(Must(BuildReport(inputs))))).ok());
  const CliOutcome outcome = Show("/int8");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("PARTIAL: 8 contexts of filter all (--limit 8); the suite has "));
}

}  // namespace
}  // namespace assay
