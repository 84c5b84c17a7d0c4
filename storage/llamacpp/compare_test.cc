#include "storage/llamacpp/compare.h"

#include <gtest/gtest.h>

#include <cstring>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/data/llamacpp/" + name;
}

std::shared_ptr<const LlamacppLogits> Open(const std::string& path) {
  auto file = LlamacppLogits::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : nullptr;
}

TEST(LlamacppCompare, MeansAreTheOracles) {
  const auto base = Open(Data("v4097-c64/base-Q4_1.kld")),
             cand = Open(Data("v4097-c64/cand-Q4_0.kld"));
  const auto known = ReadJsonFile(Data("known-answer.json"));
  ASSERT_TRUE(known.ok());
  const Json& pair = (*known)["pairs"]["v4097-c64"];
  Json first;
  for (const int threads : {1, 3}) {
    const auto rows = CompareLogitsFiles(*base, *cand, threads);
    ASSERT_TRUE(rows.ok()) << rows.status();
    const Json summary = SummarizeLogitsRows(*rows);
    for (const char* key :
         {"kl_renorm", "kl_reverse_renorm", "jsd_renorm_bits", "kl_lumped", "kl_skip16"}) {
      EXPECT_NEAR(summary[key]["mean"].get<double>(), pair["means"][key].get<double>(), 1e-12)
          << key;
    }
    EXPECT_EQ(summary["same_top"].get<double>(),
              pair["same_top"]["files"].get<double>() / pair["same_top"]["rows"].get<double>());
    const Json& mass = pair["row_facts"]["base_decoded_mass_min_max"];
    EXPECT_NEAR(summary["mass_base_max"].get<double>(), mass[1].get<double>(), 1e-12);
    if (threads == 1) first = summary;
    EXPECT_EQ(summary, first);
  }
}

TEST(LlamacppCompare, RefusesOtherTextsAndSizes) {
  const auto base = Open(Data("v4097-c64/base-Q4_1.kld"));
  const auto other = Open(Data("v4097-c16-bos/base-Q4_1-add-bos.kld"));
  const auto refused = CompareLogitsFiles(*base, *other, 1);
  EXPECT_EQ(ReasonOf(refused.status()), "LLAMACPP_DIFFERS");
  for (const char* part : {"64 and 16", "4 and 3"}) {
    EXPECT_NE(MessageOf(refused.status()).find(part), std::string::npos) << refused.status();
  }
  auto bytes = ReadFile(base->path(), uint64_t{1} << 30);
  ASSERT_TRUE(bytes.ok());
  (*bytes)[20 + 4 * 70] ^= 1;
  const std::string path = ::testing::TempDir() + "/llamacpp_other_text.kld";
  ASSERT_TRUE(WriteFile(path, *bytes).ok());
  const auto text = CompareLogitsFiles(*base, *Open(path), 1);
  EXPECT_EQ(ReasonOf(text.status()), "LLAMACPP_DIFFERS");
  EXPECT_NE(MessageOf(text.status()).find("chunk 1, position 6"), std::string::npos)
      << text.status();
}

TEST(LlamacppCompare, NoticesDamagedCodes) {
  const auto base = Open(Data("v4097-c64/base-Q4_1.kld"));
  auto bytes = ReadFile(base->path(), uint64_t{1} << 30);
  ASSERT_TRUE(bytes.ok());
  const size_t row = 20 + 4 * 4 * 64 + 40 * base->row_bytes();
  std::memset(bytes->data() + row + 8 + 2000, 0xff, 400);
  const std::string path = ::testing::TempDir() + "/llamacpp_damaged.kld";
  ASSERT_TRUE(WriteFile(path, *bytes).ok());
  const auto refused = CompareLogitsFiles(*base, *Open(path), 2);
  EXPECT_EQ(ReasonOf(refused.status()), "LLAMACPP_INVALID");
  EXPECT_NE(MessageOf(refused.status()).find("chunk 1, position 41"), std::string::npos)
      << refused.status();
}

TEST(LlamacppCompare, RawLogitsOfAnotherSizeOrWithNaN) {
  const auto base = Open(Data("v4097-c64/base-Q4_1.kld"));
  EXPECT_EQ(ReasonOf(ToolRowsOfRaw(*base, base->path(), 1).status()), "LLAMACPP_INVALID");
  auto bytes = ReadFile(Data("v4097-c64/cand-Q4_0.logits.f32"), uint64_t{1} << 30);
  ASSERT_TRUE(bytes.ok());
  std::memset(bytes->data() + 4 * (5 * 4097 + 17), 0xff, 4);
  const std::string path = ::testing::TempDir() + "/llamacpp_nan.f32";
  ASSERT_TRUE(WriteFile(path, *bytes).ok());
  const auto refused = ToolRowsOfRaw(*base, path, 1);
  EXPECT_EQ(ReasonOf(refused.status()), "LLAMACPP_INVALID");
  EXPECT_NE(MessageOf(refused.status()).find("position 37, column 17"), std::string::npos)
      << refused.status();
}

}  // namespace
}  // namespace assay
