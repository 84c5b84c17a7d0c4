// Known answers: tests/data/llamacpp/known-answer.json (float64, NumPy) and printouts of the tool
// itself.

#include "storage/llamacpp/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/llamacpp/block.h"

namespace assay {
namespace {

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/data/llamacpp/" + name;
}

std::shared_ptr<const LlamacppLogits> Open(const std::string& name) {
  auto file = LlamacppLogits::Open(Data("v4097-c64/" + name));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : nullptr;
}

std::vector<LlamacppToolRow> ToolRows(const LlamacppLogits& base, const std::string& raw) {
  const auto file = MappedFile::Open(Data("v4097-c64/" + raw));
  EXPECT_TRUE(file.ok()) << file.status();
  const auto vocab = static_cast<size_t>(base.vocab_size());
  std::vector<LlamacppToolRow> out;
  for (int64_t row = 0; row < base.rows(); ++row) {
    std::vector<float> logits(vocab);
    std::memcpy(logits.data(), (*file)->bytes().data() + static_cast<size_t>(row) * vocab * 4,
                vocab * 4);
    out.push_back(ToolRow(base.Row(row), logits, base.Target(row)));
  }
  return out;
}

TEST(LlamacppRows, TwoFilesMatchTheOracle) {
  const auto base = Open("base-Q4_1.kld"), cand = Open("cand-Q4_0.kld");
  const auto known = ReadJsonFile(Data("known-answer.json"));
  ASSERT_TRUE(known.ok()) << known.status();
  const Json& want = (*known)["pairs"]["v4097-c64"]["per_row"];
  const std::pair<const char*, double LogitsPairRow::*> fields[] = {
      {"kl_renorm", &LogitsPairRow::kl_renorm},
      {"kl_reverse_renorm", &LogitsPairRow::kl_reverse_renorm},
      {"jsd_renorm_bits", &LogitsPairRow::jsd_renorm_bits},
      {"kl_lumped", &LogitsPairRow::kl_lumped},
      {"kl_skip16", &LogitsPairRow::kl_skip16},
      {"nll_base_decoded", &LogitsPairRow::nll_base},
      {"nll_cand_decoded", &LogitsPairRow::nll_cand}};
  ASSERT_EQ(want["kl_renorm"].size(), static_cast<size_t>(base->rows()));
  for (int64_t row = 0; row < base->rows(); ++row) {
    const auto got =
        CompareLogits(base->Row(row), cand->Row(row), base->coding(), base->Target(row));
    ASSERT_TRUE(got.ok()) << got.status();
    const auto i = static_cast<size_t>(row);
    for (const auto& [name, field] : fields) {
      EXPECT_NEAR((*got).*field, want[name][i].get<double>(), 1e-12) << name << " of row " << row;
    }
    EXPECT_EQ(got->top1_base, want["argmax_base"][i].get<int32_t>());
    EXPECT_EQ(got->top1_cand, want["argmax_cand"][i].get<int32_t>());
    const auto self =
        CompareLogits(base->Row(row), base->Row(row), base->coding(), base->Target(row));
    EXPECT_EQ(self->kl_renorm, 0);
    EXPECT_EQ(self->kl_reverse_renorm, 0);
    EXPECT_EQ(self->jsd_renorm_bits, 0);
  }
}

TEST(LlamacppRows, TheToolsOwnRows) {
  const auto base = Open("base-Q4_1.kld");
  const auto rows = ToolRows(*base, "cand-Q4_0.logits.f32");
  const auto known = ReadJsonFile(Data("known-answer.json"));
  const Json& want = (*known)["pairs"]["v4097-c64"]["per_row"];
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(rows[i].kl, want["kl_tool"][i].get<double>(), 1e-7) << i;
    EXPECT_EQ(rows[i].delta_p, static_cast<float>(want["dp_tool"][i].get<double>())) << i;
  }
}

// Every number that the tool printed, to its last digit: chunk lines and closing block.
TEST(LlamacppBlock, IsThePrintout) {
  const auto base = Open("base-Q4_1.kld");
  for (const auto& [raw, printout] :
       {std::pair("cand-Q4_0.logits.f32", "Q4_0.txt"), {"base-Q4_1.logits.f32", "Q4_1.txt"}}) {
    const auto rows = ToolRows(*base, raw);
    const auto text = ReadFile(Data(std::string("v4097-c64/printouts/") + printout), 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    const std::string chunks = LlamacppChunkLines(rows, 31), block = LlamacppClosingBlock(rows);
    EXPECT_NE(text->find(chunks), std::string::npos) << chunks << *text;
    EXPECT_NE(text->find(block), std::string::npos) << block << *text;
    EXPECT_FALSE(block.empty());
  }
}

TEST(LlamacppBlock, NeedsAHundredRows) {
  std::vector<LlamacppToolRow> rows(99, LlamacppToolRow{0.1, 1, 1, 0, true});
  EXPECT_EQ(LlamacppClosingBlock(rows), "");
  rows.emplace_back();
  EXPECT_NE(LlamacppClosingBlock(rows), "");
}

TEST(LlamacppRows, ExactZerosOfTheSecondForm) {
  const std::vector<uint16_t> both = {65535, 1, 0}, less = {65535, 0, 0};
  const LlamacppRow base{1e-4F, -6.5534F, both}, cand{1e-4F, -6.5534F, less};
  EXPECT_EQ(ReasonOf(CompareLogits(base, cand, LlamacppCoding::kV2, 0).status()),
            "INFINITE_POSITION");
  const auto back = CompareLogits(cand, base, LlamacppCoding::kV2, 0);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(std::isinf(back->kl_reverse_renorm));
  // One column against two of probabilities 1 / (1 + e) and e / (1 + e), e = exp(-6.5534): KL =
  // log1p(e).
  EXPECT_NEAR(back->kl_renorm, std::log1p(std::exp(-65534e-4)), 1e-6);
}

}  // namespace
}  // namespace assay
