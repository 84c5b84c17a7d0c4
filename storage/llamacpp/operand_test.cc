// Logits files as operands.

#include "storage/llamacpp/operand.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

TEST(LlamacppOperand, TheFileItsSuiteAndWhatItMayBeComparedWith) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(
           JoinPath(root == nullptr ? "." : root, "tests/data/llamacpp/v4097-c64"))) {
    if (entry.path().extension() == ".kld") file = entry.path().string();
  }
  ASSERT_NE(file, "");
  std::string pattern = testing::TempDir() + "/assay-operand-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::string dir = pattern + "/operand";
  const auto made = ImportLlamacppLogits(file, {}, dir);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string bytes = *ReadFile(file, uint64_t{1} << 30);
  EXPECT_EQ((*made)["sha256"], Sha256Hex(bytes));
  EXPECT_EQ((*made)["floor_nats"], 16);
  EXPECT_EQ((*made)["context_length"], 64);
  EXPECT_EQ((*made)["score_from"], 32);
  const auto suite = ReadSuite(dir + "/suite");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ((*made)["suite"]["manifest_sha256"], suite->manifest_sha256);
  const auto found = LlamacppFileOf(dir);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*ReadFile(*found, uint64_t{1} << 30), bytes);
  EXPECT_EQ(*LlamacppFileOf(file), file);
  std::string bent = bytes;
  bent.back() ^= 1;
  ASSERT_TRUE(WriteFile(*found, bent).ok());
  EXPECT_EQ(ReasonOf(LlamacppFileOf(dir).status()), "DIGEST_MISMATCH");
  EXPECT_EQ(ReasonOf(ImportLlamacppLogits(dir + "/operand.json", {}, pattern + "/x").status()),
            "LLAMACPP_INVALID");
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace assay
