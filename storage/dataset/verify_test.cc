#include "storage/dataset/verify.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "storage/base/files.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/compare.h"
#include "storage/dataset/overlay.h"
#include "storage/dataset/tree.h"

namespace assay {
namespace {

std::string Data() {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/data/metric/fidelity-dataset";
}

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    work_ = ::testing::TempDir() + "/dataset_" + std::to_string(getpid());
    ASSERT_TRUE(RemoveTree(work_).ok());
    ASSERT_TRUE(EnsureDirectory(work_).ok());
  }
  void TearDown() override { RemoveTree(work_).IgnoreError(); }

  // A copy of the smallest dataset, to be changed.
  std::string Copy() {
    const std::string target = JoinPath(work_, "mini");
    std::filesystem::remove_all(target);
    std::filesystem::copy(Data() + "/datasets/mini", target,
                          std::filesystem::copy_options::recursive);
    return target;
  }
  std::string work_;
};

// Every answer of the public validator: findings in order, and which gates ran.
TEST_F(DatasetTest, GivesThePublishedFindings) {
  const auto overlays = ReadJsonFile(Data() + "/overlays.json"),
             answers = ReadJsonFile(Data() + "/verify.json");
  ASSERT_TRUE(overlays.ok() && answers.ok());
  ASSERT_EQ(answers->size(), 136u);
  for (const Json& entry : *answers) {
    EXPECT_EQ(CheckVerifyAnswer(Data(), *overlays, entry, work_), "")
        << entry.at("name") << " " << entry.at("options");
  }
}

// The 26 published comparisons: refusals, classes, disclosures, values at every position.
TEST_F(DatasetTest, GivesThePublishedComparisons) {
  const auto answers = ReadJsonFile(Data() + "/compare.json");
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 26u);
  for (const Json& entry : *answers)
    EXPECT_EQ(CheckCompareAnswer(Data(), entry), "") << entry.at("name");
}

TEST_F(DatasetTest, ThreadsAndBlocksChangeNothing) {
  const std::string root = Data() + "/datasets/root", other = Data() + "/datasets/quant-head";
  DatasetCompareOptions options;
  options.own_heads = true;
  const DatasetComparison first = CompareDatasets(root, other, options);
  ASSERT_FALSE(first.relation.refusal);
  options.threads = 3;
  options.position_block = 7;
  options.vocab_chunk = 11;
  EXPECT_EQ(CompareDatasets(root, other, options).summary, first.summary);
}

// Bits of every file.
TEST_F(DatasetTest, EveryFlippedByteOfEveryFileIsRefused) {
  const std::string root = Copy();
  for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
    if (!file.is_regular_file()) continue;
    const std::string path = file.path().string();
    const auto bytes = ReadFile(path, 1 << 20);
    ASSERT_TRUE(bytes.ok());
    const size_t step = std::max<size_t>(1, bytes->size() / 40);
    for (size_t at = 0; at < bytes->size(); at += step) {
      std::string changed = *bytes;
      changed[at] = static_cast<char>(changed[at] ^ 4);
      ASSERT_TRUE(WriteFile(path, changed).ok());
      // White space of the top manifest is the one thing that no seal covers.
      const bool blank = file.path().filename() == "fidelity-dataset.json" &&
                         ((*bytes)[at] == ' ' || (*bytes)[at] == '\n');
      if (blank) continue;
      EXPECT_FALSE(VerifyDataset(root, {}).ok()) << path << " at " << at;
    }
    ASSERT_TRUE(WriteFile(path, *bytes).ok());
  }
  EXPECT_TRUE(VerifyDataset(root, {}).ok());
}

TEST_F(DatasetTest, NeverOpensWhatLiesOutside) {
  EXPECT_TRUE(IsDatasetPath("panel/tokens/a.json", "", false));
  EXPECT_TRUE(IsDatasetPath("../runtime/a.json", "capture", true));
  for (const char* path :
       {"", "/etc/passwd", "\\x", "c:/x", "http://x/y", "a/../b", "..", ".", "a/../../b", "./"}) {
    EXPECT_FALSE(IsDatasetPath(path, "", false)) << path;
  }
  EXPECT_FALSE(IsDatasetPath("../../x", "capture", true));
  const std::string root = Copy();
  ASSERT_EQ(symlink("/etc", (root + "/link").c_str()), 0);
  ASSERT_EQ(symlink("/etc/hostname", (root + "/name").c_str()), 0);
  EXPECT_FALSE(FindInDataset(root, "link/hostname"));
  EXPECT_FALSE(FindInDataset(root, "name"));
  EXPECT_FALSE(FindInDataset(root, "../mini/README.md"));
  EXPECT_TRUE(FindInDataset(root, "README.md"));
}

// Two names that are one file on a system where case does not count.
TEST_F(DatasetTest, NamesThatDifferInCaseAloneAreRefused) {
  const std::string root = Copy();
  const std::string list = JoinPath(root, "checksums.txt");
  std::string listed = *ReadFile(list, 1 << 20);
  const size_t line = listed.find("  README.md\n");
  ASSERT_NE(line, std::string::npos);
  listed += listed.substr(line - 64, 64) + "  readme.md\n";
  std::filesystem::copy(root + "/README.md", root + "/readme.md");
  ASSERT_TRUE(WriteFile(list, listed).ok());
  const auto problem = CheckTree(root, "checksums.txt", false);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code, "case_collision");
  EXPECT_NE(problem->message.find("README.md and readme.md"), std::string::npos);
  std::filesystem::remove(root + "/readme.md");
  ASSERT_TRUE(WriteFile(list, listed.substr(0, listed.rfind('\n', listed.size() - 2) + 1)).ok());
  EXPECT_FALSE(CheckTree(root, "checksums.txt", false));
}

TEST_F(DatasetTest, ARootOfQuantizedWeightsIsRefused) {
  DatasetDocuments documents = VerifyDataset(Copy(), {}).documents;
  ASSERT_EQ(documents.manifest["dataset"]["role"], "root");
  for (const bool quantized : {false, true}) {
    documents.manifest["weights"]["quantized"] = quantized;
    Findings findings;
    CheckRole(documents, &findings);
    ASSERT_EQ(findings.errors.size(), quantized ? 1u : 0u);
    if (quantized) {
      EXPECT_EQ(findings.errors[0].rule, "ROOT-1");
    }
  }
}

TEST_F(DatasetTest, HostileFilesAreFindings) {
  const std::string root = Copy();
  const auto refused = [&](const std::string& file, const std::string& bytes) {
    const auto old = ReadFile(JoinPath(root, file), 1 << 20);
    EXPECT_TRUE(WriteFile(JoinPath(root, file), bytes).ok());
    const DatasetVerdict verdict = VerifyDataset(root, {});
    EXPECT_FALSE(verdict.ok()) << file << ": " << bytes.substr(0, 40);
    EXPECT_TRUE(WriteFile(JoinPath(root, file), *old).ok());
  };
  for (const std::string& bytes :
       {std::string(), std::string("[]"), std::string("null"), std::string("{\"schema\":1}"),
        std::string(200, '['),
        std::string("{\"schema\":\"malaiwah.fidelity-dataset.v1\",\"format_version\":1}"),
        std::string(
            "{\"schema\":\"malaiwah.fidelity-dataset.v1\",\"schema\":1,\"format_version\":1}"),
        std::string("{\"schema\":\"malaiwah.fidelity-dataset.v1\",\"format_version\":1,\"capture\":"
                    "[1],\"panel\":3}")}) {
    refused("fidelity-dataset.json", bytes);
  }
  for (const char* file : {"capture/manifest.json", "panel/panel.json", "head/head.json",
                           "runtime/capture-runtime.json"}) {
    refused(file, "{}");
    refused(file, "{\"records\":[1,null,\"x\"]}");
    refused(file, "{\"records\":[{\"index\":1e300,\"scored_rows\":9223372036854775807}]}");
  }
  EXPECT_FALSE(VerifyDataset(root + "/no-such-folder", {}).ok());
  ASSERT_EQ(mkfifo((root + "/capture/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(VerifyDataset(root, {}).ok());
}

TEST(DatasetCanonical, KeepsPythonsForm) {
  const auto value = ParseJson(
      R"({"b":1.50,"a":[0,0.0,-0.0,1e-5,1e16,1e15],"é":"\u00e9\u0007\u007f/","c":null})", "x");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(DatasetCanonicalJson(*value),
            "{\"a\":[0,0.0,-0.0,1e-05,1e+16,1000000000000000.0],\"b\":1.5,\"c\":null,\"é\":"
            "\"é\\u0007\x7f/\"}");
}

}  // namespace
}  // namespace assay
