// assay report pair: two report files, with and without a difference of arithmetic.

#include <stdlib.h>

#include "client/cli/cli_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReportPair : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "assay-pair-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    a_ = Put("a", SmolInputs("int4-g32"));
    b_ = Put("b", SmolInputs("q4_0"));
    ReportInputs rounded = SmolInputs("q4_0");
    rounded.numeric.policy = "torch-bf16";
    c_ = Put("c", rounded);
    rounded.numeric.softcap = 30.0;
    d_ = Put("d", rounded);
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }

  // The folder that holds the report.
  std::string Put(const std::string& name, const ReportInputs& inputs) {
    const std::string folder = dir_ + "/" + name;
    EXPECT_TRUE(EnsureDirectory(folder).ok());
    const std::string bytes = Must(ReportBytes(Must(BuildReport(inputs))));
    EXPECT_TRUE(WriteFile(folder + "/report.json", bytes).ok());
    return folder;
  }

  std::string dir_, a_, b_, c_, d_;
};

TEST_F(ReportPair, FoldersAndFilesOfComparableReports) {
  const CliOutcome folders = Invoke({"report", "pair", a_.c_str(), b_.c_str()});
  EXPECT_EQ(folders.code, 0) << folders.err;
  EXPECT_THAT(folders.out, HasSubstr("nats"));
  EXPECT_THAT(folders.out, Not(HasSubstr("ARITHMETIC")));
  const std::string file = b_ + "/report.json";
  const CliOutcome json = Invoke({"report", "pair", a_.c_str(), file.c_str(), "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_TRUE(Json::parse(json.out).at("comparison").at("difference_a_minus_b").is_number());
}

TEST_F(ReportPair, ArithmeticIsCrossedOnlyByName) {
  const CliOutcome refused = Invoke({"report", "pair", a_.c_str(), c_.c_str()});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("NOT_COMPARABLE"));
  EXPECT_THAT(refused.err, HasSubstr("[POLICY_DIFFERS]"));
  EXPECT_THAT(refused.err, HasSubstr("--across-policies"));
  const CliOutcome shown = Invoke({"report", "pair", a_.c_str(), c_.c_str(), "--across-policies"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("ARITHMETIC DIFFERS: POLICY_DIFFERS (exact, torch-bf16)"));
  const CliOutcome other = Invoke({"report", "pair", a_.c_str(), d_.c_str(), "--across-policies"});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("softcaps"));
  EXPECT_THAT(other.err, HasSubstr("numeric policies"));
  EXPECT_THAT(other.err, Not(HasSubstr("--across-policies")));
  const CliOutcome outer = Invoke({"report", "pair", dir_.c_str(), b_.c_str()});
  EXPECT_EQ(outer.code, 3);
  EXPECT_THAT(outer.err, HasSubstr("give a candidate's folder"));
}

// Expected: tests/data/statistics/expected.json, int4-g32 minus q4_0 among three comparisons.
TEST_F(ReportPair, AllPairsOfMoreThanTwoSayThatManyWereCompared) {
  const std::string third = Put("third", SmolInputs("int8-channel"));
  const CliOutcome text = Invoke({"report", "pair", a_.c_str(), b_.c_str(), third.c_str()});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("3 pairs were compared"));
  EXPECT_THAT(text.out, HasSubstr("AMONG ALL"));
  const CliOutcome outcome =
      Invoke({"report", "pair", a_.c_str(), b_.c_str(), third.c_str(), "--json"});
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("comparisons"), 3);
  const Json& together = json.at("pairs")[0].at("comparison").at("simultaneous");
  EXPECT_EQ(together.at("ci95_low"), 0.0977161301997347);
  EXPECT_EQ(together.at("ci95_high"), 0.17622787436660453);
  // One that was not measured alike is named, and the others are compared.
  const CliOutcome mixed = Invoke({"report", "pair", a_.c_str(), b_.c_str(), c_.c_str()});
  EXPECT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_THAT(mixed.out, HasSubstr("not comparable"));
  EXPECT_EQ(Invoke({"report", "pair", a_.c_str()}).code, 2);
}

}  // namespace
}  // namespace assay
