// assay capture inspect|verify, suite verify|view: what people and programs get.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "client/cli/cli_test_util.h"
#include "storage/base/files.h"
#include "storage/base/json.h"

namespace assay {
namespace {

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

Json ParseOut(const CliOutcome& outcome) {
  const auto json = ParseJson(outcome.out, "standard output");
  EXPECT_TRUE(json.ok()) << outcome.out;
  return json.ok() ? *json : Json();
}

class FolderCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-folder-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    work_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(work_); }
  std::string work_;
};

TEST_F(FolderCommandsTest, CaptureInspectSaysWhatItIs) {
  const std::string dir = Data("metric/qf/captures/cand-a"), suite = Data("metric/qf/suite");
  const CliOutcome text = Invoke({"capture", "inspect", dir.c_str(), "--suite", suite.c_str()});
  EXPECT_EQ(text.code, kExitSuccess) << text.err;
  for (const char* part : {"qwen38-fidelity-capture/2", "14 of 47 rows x 96 values, BF16",
                           "/models/synthetic-a", "missing files", "STRATUM", "IN SUITE"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Json json = ParseOut(Invoke({"capture", "inspect", dir.c_str(), "--json"}));
  EXPECT_EQ(json["positions"], 658);
  const std::string root = Data("metric/fidelity-dataset/datasets/quant-logit");
  const Json dataset = ParseOut(Invoke({"capture", "inspect", root.c_str(), "--json"}));
  EXPECT_EQ(dataset["capture"]["form"], "logit");
  EXPECT_EQ(dataset["strata"][0]["contexts"], 2);
  const CliOutcome columns = Invoke({"capture", "inspect", root.c_str()});
  EXPECT_NE(columns.out.find("dataset.structural_status  "), std::string::npos) << columns.out;
  EXPECT_EQ(Invoke({"dataset", "verify", (work_ + "/none").c_str()}).code, kExitRefusedInput);
}

TEST_F(FolderCommandsTest, CaptureVerifyGivesALineForEachGateAndOneVerdict) {
  const std::string suite = Data("metric/qf/suite"), dir = work_ + "/capture";
  std::filesystem::copy(Data("metric/qf/captures/cand-a"), dir);
  const CliOutcome good = Invoke({"capture", "verify", dir.c_str(), "--suite", suite.c_str()});
  EXPECT_EQ(good.code, kExitSuccess) << good.err << good.out;
  EXPECT_NE(good.out.find("pass  digests"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("n/a   cut point"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("VALID: "), std::string::npos) << good.out;
  std::filesystem::remove(dir + "/hidden_0001.safetensors");
  const CliOutcome bad = Invoke({"capture", "verify", dir.c_str(), "--json"});
  EXPECT_EQ(bad.code, kExitVerificationFailed);
  const Json json = ParseOut(bad);
  EXPECT_EQ(json["verdict"], "refused");
  for (const Json& gate : json["gates"])
    EXPECT_EQ(gate["outcome"] == "fail", gate["gate"] == "files") << gate;
  EXPECT_EQ(Invoke({"capture", "verify", (work_ + "/none").c_str()}).code, kExitRefusedInput);
}

TEST_F(FolderCommandsTest, CaptureStillNeedsItsOptions) {
  const CliOutcome outcome = Invoke({"capture", "--suite", "x", "--out", "y"});
  EXPECT_EQ(outcome.code, kExitBadUsage);
  EXPECT_NE(outcome.err.find("--model"), std::string::npos) << outcome.err;
}

TEST_F(FolderCommandsTest, SuiteViewWritesThePublishersBytes) {
  const std::string suite = Data("metric/qf/suite");
  const CliOutcome made = Invoke({"suite", "view", suite.c_str(), "--all", "--size", "7",
                                  "--parent-name", "suite", "--out", work_.c_str(), "--json"});
  ASSERT_EQ(made.code, kExitSuccess) << made.err;
  EXPECT_EQ(ParseOut(made)["views"].size(), 2u);
  for (const char* name : {"shard-0000", "shard-0001"}) {
    const std::string file = std::string("/") + name + "/suite-manifest.json";
    EXPECT_EQ(*ReadFile(work_ + file, 1 << 30), *ReadFile(suite + file, 1 << 30));
    const CliOutcome verified =
        Invoke({"suite", "verify", (work_ + "/" + name).c_str(), "--parent", suite.c_str()});
    EXPECT_EQ(verified.code, kExitSuccess) << verified.out << verified.err;
    EXPECT_NE(verified.out.find("pass  view"), std::string::npos) << verified.out;
    EXPECT_NE(verified.out.find("pass  tokens"), std::string::npos) << verified.out;
  }
  // Another view in the same place is refused.
  EXPECT_EQ(Invoke({"suite", "view", suite.c_str(), "--shard", "0", "--size", "6", "--out",
                    work_.c_str()})
                .code,
            kExitRefusedInput);
}

TEST_F(FolderCommandsTest, SuiteVerifyNamesTheGateThatFailed) {
  const std::string dir = work_ + "/suite";
  std::filesystem::copy(Data("metric/qf/suite"), dir, std::filesystem::copy_options::recursive);
  EXPECT_EQ(Invoke({"suite", "verify", dir.c_str()}).code, kExitSuccess);
  std::filesystem::remove(dir + "/tokens/context-0002.json");
  const CliOutcome bad = Invoke({"suite", "verify", dir.c_str(), "--json"});
  EXPECT_EQ(bad.code, kExitVerificationFailed);
  const Json answer = ParseOut(bad);
  for (const Json& gate : answer["gates"])
    EXPECT_EQ(gate["outcome"] == "fail", gate["gate"] == "tokens") << gate;
}

}  // namespace
}  // namespace assay
