// Published manifests, where this machine has them beside the source tree.

#include <gtest/gtest.h>

#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "storage/format/capture.h"
#include "storage/format/format_test_util.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

class Published : public testing::Test {
 protected:
  void SetUp() override {
    if (!IsDirectory(Path(""))) GTEST_SKIP() << "the published receipts are not here";
  }
  std::string Path(const std::string& name) {
    return SourcePath("../shared/data/published-receipts/" + name);
  }
};

// Digests of qwen-suites 1.1.
TEST_F(Published, SuiteManifestV5) {
  const std::string path = Path("kld5-suite-manifest.json");
  if (!FileExists(path)) GTEST_SKIP() << path << " is not here";
  const auto suite = ParseSuiteManifest(ReadOrDie(path), path);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->contexts.size(), 5120u);
  EXPECT_EQ(suite->context_length, 2048);
  EXPECT_EQ(suite->vocab_size, 248320);
  EXPECT_EQ(suite->suite_token_sha256,
            "510541f6861b589d44932db253ec25d96d6daaeeee4ea2ab9b65329209482b88");
  EXPECT_EQ(suite->manifest_sha256,
            "c79dfad3767ca5b3015129077f20dbb9282a2e51ca8bca9ed09be8c7a9c73019");
  EXPECT_EQ(SelectContexts(*suite, "analysis")->size(), 4064u);
  EXPECT_EQ(SelectContexts(*suite, "qualification")->size(), 1056u);
  EXPECT_EQ(SelectContexts(*suite, "sentinel")->size(), 32u);
}

TEST_F(Published, CaptureManifest) {
  const std::string path = Path("frontier-g02-capture-manifest.json");
  if (!FileExists(path)) GTEST_SKIP() << path << " is not here";
  const auto json = ReadJsonFile(path);
  ASSERT_TRUE(json.ok()) << json.status();
  const auto manifest = ParseCaptureManifest(*json, path);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_TRUE(manifest->complete);
  EXPECT_FALSE(manifest->legacy);
  EXPECT_EQ(manifest->schema, "qwen38-fidelity-capture/2");
  for (const CaptureRecord& record : manifest->records) {
    EXPECT_EQ(record.rows, 2047u);
    EXPECT_EQ(record.width, 5120u);
  }
}

}  // namespace
}  // namespace assay
