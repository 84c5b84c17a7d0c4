// assay report check, and how figures are named.

#include <cstdlib>

#include "client/cli/cli_test_util.h"
#include "client/cli/report_bounds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/report/report_test_data.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class ReportCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "checkXXXXXX";
    dir_ = mkdtemp(pattern.data());
    std::vector<SummaryCandidate> candidates;
    for (const auto& [label, name] : {std::pair("int8", "int8-channel"), {"int4", "int4-g32"}}) {
      SummaryCandidate candidate;
      candidate.label = label;
      candidate.report = Must(BuildReport(SmolInputs(name)));
      const std::string bytes = Must(ReportBytes(candidate.report));
      EXPECT_TRUE(EnsureDirectory(dir_ + "/" + label).ok());
      EXPECT_TRUE(WriteFile(dir_ + "/" + label + "/report.json", bytes).ok());
      candidates.push_back(candidate);
    }
    SummaryCandidate failed;
    failed.label = "bad";
    failed.failed_reason = "GGUF_INVALID";
    failed.failed_message = "is cut short";
    two_ = Must(BuildSummary(candidates)).json;
    candidates.push_back(failed);
    three_ = Must(BuildSummary(candidates)).json;
    EXPECT_TRUE(WriteFile(dir_ + "/summary.json", two_.dump()).ok());
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }

  CliOutcome Check(const std::string& what, std::vector<std::string> bounds) {
    std::vector<std::string> all = {"report", "check", dir_ + what};
    all.insert(all.end(), bounds.begin(), bounds.end());
    std::vector<const char*> args;
    for (const std::string& arg : all) args.push_back(arg.c_str());
    return Invoke(args);
  }
  std::string dir_;
  Json two_, three_;
};

// Values of the fixture: known-answers/summary.json and tests/data/statistics/expected.json.
TEST_F(ReportCheck, BoundsAreMetOrNot) {
  const std::string high = "kl_ref_cand.mean.ci95_high=";
  EXPECT_EQ(Check("/int8", {"--max", high + "0.0049"}).code, 0);
  EXPECT_EQ(Check("/int8", {"--max", high + "0.0048"}).code, 7);
  EXPECT_EQ(Check("/int8/report.json", {"--min", "agreement.same_top1=0.9623"}).code, 0);
  EXPECT_EQ(Check("/int8", {"--min", "agreement.same_top1=0.9624"}).code, 7);
  EXPECT_EQ(Check("/int8", {"--max", "ln_perplexity_ratio.mean=0.0044", "--min",
                            "ln_perplexity_ratio.mean=0.0043"})
                .code,
            0);
  EXPECT_EQ(Check("/int8", {"--max", "ln_perplexity_ratio.ci95_high=0.0137"}).code, 7);
  EXPECT_EQ(Check("/int8", {"--max", "delta_p.rms=0.0136"}).code, 0);
  EXPECT_EQ(Check("/int8", {"--max", "strata.code.mean_kl_ref_cand=1e-9"}).code, 7);
  EXPECT_EQ(Check("/int8", {"--min", "coverage.positions=504"}).code, 0);
  const CliOutcome both = Check("/int8", {"--max", high + "1", "--max", "kl_ref_cand.max=1e-9"});
  EXPECT_EQ(both.code, 7);
  EXPECT_THAT(both.out, HasSubstr("pass  int8       kl_ref_cand.mean.ci95_high  0.00488035"));
  EXPECT_THAT(both.out, HasSubstr("FAIL  int8       kl_ref_cand.max"));
}

TEST_F(ReportCheck, AFolderIsCheckedCandidateByCandidate) {
  const CliOutcome outcome = Check("", {"--max", "kl_ref_cand.mean=0.01", "--json"});
  EXPECT_EQ(outcome.code, 7);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("passed"), false);
  EXPECT_EQ(json.at("checks")[0].at("passed"), true);
  EXPECT_EQ(json.at("checks")[1].at("passed"), false);
  EXPECT_EQ(Check("", {"--max", "kl_ref_cand.mean=1"}).code, 0);
  ASSERT_TRUE(WriteFile(dir_ + "/summary.json", three_.dump()).ok());
  const CliOutcome failed = Check("", {"--max", "kl_ref_cand.mean=1"});
  EXPECT_EQ(failed.code, 7);
  EXPECT_THAT(failed.err, HasSubstr("bad was not scored [GGUF_INVALID]"));
}

TEST_F(ReportCheck, WhatCannotBeABoundIsBadUsage) {
  const auto error = [&](const std::string& bound) {
    const CliOutcome outcome = Check("/int8", {"--max", bound});
    EXPECT_EQ(outcome.code, 2) << bound;
    return outcome.err;
  };
  for (const char* bound : {"kl_ref_cand.mean=nan", "kl_ref_cand.mean=inf",
                            "kl_ref_cand.mean=", "kl_ref_cand.mean=1x", "kl_ref_cand.mean", "=1"}) {
    EXPECT_THAT(error(bound), HasSubstr("BAD_USAGE"));
  }
  EXPECT_THAT(error("kl_ref_cand.meen=1"), HasSubstr("did you mean kl_ref_cand.mean?"));
  EXPECT_THAT(error("agreement.same_top=1"), HasSubstr("did you mean agreement.same_top1?"));
  EXPECT_THAT(error("nonsense=1"), HasSubstr("for example kl_ref_cand.mean"));
  EXPECT_THAT(error("kl_ref_cand=1"), HasSubstr("no single number"));
  EXPECT_THAT(error("kl_ref_cand.tail.counts=1"), HasSubstr("no single number"));
  EXPECT_EQ(Check("/int8", {}).code, 2);
}

TEST_F(ReportCheck, WhatIsNotKnownMeetsNoBound) {
  ReportInputs few = SmolInputs("int8-channel");
  for (ReportContext& context : few.contexts) context.source_cluster = context.stratum;
  const std::string bytes = Must(ReportBytes(Must(BuildReport(few))));
  ASSERT_TRUE(WriteFile(dir_ + "/int8/report.json", bytes).ok());
  const CliOutcome outcome = Check("/int8", {"--max", "kl_ref_cand.mean.ci95_high=1e9"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.out, HasSubstr("gives no number there"));
  ReportInputs infinite = SmolInputs("int8-channel");
  infinite.numeric.allow_infinite = true;
  infinite.heads["own"].arrays.f64[0][7] = HUGE_VAL;
  const Json report = Must(BuildReport(infinite));
  const ReportFigure figure = Must(FindFigure(report, Json::object(), "own", "kl_ref_cand.mean"));
  EXPECT_EQ(figure.value, nullptr);
  EXPECT_EQ(figure.why, "infinite at 1 positions");
}

// Values are those that the published file states.
TEST_F(ReportCheck, PublishedReportsHaveTheSamePaths) {
  const std::string reports =
      std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/metric/qf/reports/";
  const auto check = [](const std::string& file, const std::string& option,
                        const std::string& bound) {
    return Invoke({"report", "check", file.c_str(), option.c_str(), bound.c_str()});
  };
  const std::string file = reports + "a-from16.json";
  for (const auto& [path, below, above] : {std::tuple("kl_ref_cand.mean", "0.01709", "0.0171"),
                                           {"kl_ref_cand.mean.ci95_low", "0.0100", "0.0101"},
                                           {"kl_ref_cand.mean.ci95_high", "0.0247", "0.0248"},
                                           {"kl_ref_cand.p50", "0.00565", "0.00566"},
                                           {"kl_ref_cand.p95", "0.0841", "0.0842"},
                                           {"kl_ref_cand.p99", "0.1278", "0.1279"},
                                           {"kl_ref_cand.p999", "0.2583", "0.2584"},
                                           {"kl_ref_cand.max", "0.3229", "0.3230"},
                                           {"agreement.same_top1", "0.9239", "0.9240"},
                                           {"coverage.positions", "433", "435"},
                                           {"coverage.contexts", "13", "15"},
                                           {"strata.code.mean_kl_ref_cand", "0.0138", "0.0139"},
                                           {"token_mean_kld", "0.01709", "0.0171"},
                                           {"mean_jsd_bits", "0.00603", "0.00604"}}) {
    const std::string name = path;
    EXPECT_EQ(check(file, "--max", name + "=" + above).code, 0) << name;
    EXPECT_EQ(check(file, "--max", name + "=" + below).code, 7) << name;
    EXPECT_EQ(check(file, "--min", name + "=" + below).code, 0) << name;
    EXPECT_EQ(check(file, "--min", name + "=" + above).code, 7) << name;
  }
  const CliOutcome unknown = check(file, "--max", "kl_ref_cand.p998=1");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean kl_ref_cand.p99"));
  EXPECT_EQ(check(file, "--max", "per_context=1").code, 2);
  const CliOutcome head =
      Invoke({"report", "check", file.c_str(), "--max", "kl_ref_cand.mean=1", "--head", "own"});
  EXPECT_EQ(head.code, 2);
  EXPECT_THAT(head.err, HasSubstr("leave out --head"));
  const CliOutcome aggregate = check(reports + "cumulative-a.json", "--max", "kl_ref_cand.mean=1");
  EXPECT_EQ(aggregate.code, 2);
  EXPECT_THAT(aggregate.err, HasSubstr("assay report show"));
}

// A figure that was written over must not meet a bound.
TEST_F(ReportCheck, APublishedReportWhoseFiguresDoNotFollowMeetsNone) {
  Json report = *ReadJsonFile(std::string(std::getenv("ASSAY_SOURCE_DIR")) +
                              "/tests/data/metric/qf/reports/a.json");
  report["token_mean_kld"] = 1e-6;
  const std::string file = dir_ + "/better.json";
  ASSERT_TRUE(WriteFile(file, PythonPrettyJson(report)).ok());
  const CliOutcome outcome =
      Invoke({"report", "check", file.c_str(), "--max", "kl_ref_cand.mean=0.001"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("REPORT_INVALID"));
}

}  // namespace
}  // namespace assay
