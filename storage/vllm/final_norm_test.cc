#include "storage/vllm/final_norm.h"

#include <gmock/gmock.h>

#include "storage/base/pairwise_sum.h"
#include "storage/base/status.h"
#include "storage/vllm/vllm_test_util.h"

namespace assay {
namespace {

using FinalNormTest = VllmTest;

TEST_F(FinalNormTest, GivesTheGoldenStates) {
  const auto norm = LoadFinalNorm(LlamaFolder());
  ASSERT_TRUE(norm.ok()) << norm.status();
  EXPECT_EQ(norm->layers, static_cast<int64_t>(kTestLayers));
  EXPECT_EQ(norm->eps, 1e-3);
  for (const std::string sequence : {"seq1", "seq2"}) {
    std::vector<float> rows = Residual(sequence, kTestLayers);
    ASSERT_TRUE(norm->Apply(rows, kTestWidth).ok());
    const std::vector<float> want = ValuesOf<float>(Golden(sequence + ".hidden"));
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(rows[i], want[i], 1e-5) << i;
  }
  std::vector<float> narrow(32, 1.0f);
  EXPECT_EQ(ReasonOf(norm->Apply(narrow, 32)), "SHAPE_MISMATCH");
}

TEST_F(FinalNormTest, FamiliesThatStoreTheWeightLessOne) {
  SafetensorsBuilder builder;
  builder.Add("model.language_model.norm.weight", DType::kF32, {2},
              BytesOf(std::vector<float>{0.5f, -0.25f}));
  Put("model/model.safetensors", builder.Build());
  Put("model/config.json",
      R"({"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text",
          "rms_norm_eps": 0.0, "num_hidden_layers": 4}})");
  const auto norm = LoadFinalNorm(dir_ + "/model");
  ASSERT_TRUE(norm.ok()) << norm.status();
  std::vector<float> row = {3.0f, -3.0f};
  ASSERT_TRUE(norm->Apply(row, 2).ok());
  EXPECT_THAT(row, testing::ElementsAre(1.5f, -0.75f));
}

TEST_F(FinalNormTest, WhatIsNotKnownIsNotGuessed) {
  Put("model/config.json", R"({"model_type": "mamba", "rms_norm_eps": 1e-6})");
  EXPECT_EQ(ReasonOf(LoadFinalNorm(dir_ + "/model").status()), "FINAL_NORM_UNKNOWN");
  EXPECT_EQ(ReasonOf(LoadFinalNorm(dir_).status()), "MODEL_UNRECOGNISED");
  SafetensorsBuilder builder;
  for (const char* name : {"model.norm.weight", "language_model.model.norm.weight"}) {
    builder.Add(name, DType::kF32, {1}, std::vector<uint8_t>(4));
  }
  Put("model/model.safetensors", builder.Build());
  Put("model/config.json",
      R"({"model_type": "llama", "rms_norm_eps": 1e-6, "num_hidden_layers": 1})");
  EXPECT_EQ(ReasonOf(LoadFinalNorm(dir_ + "/model").status()), "TENSOR_MISSING");
}

TEST(FinalNormNameTest, OnlyTheFinalNormIsMeant) {
  for (const char* name : {"norm.weight", "model.norm.weight", "model.language_model.norm.weight",
                           "language_model.model.norm.weight"}) {
    EXPECT_TRUE(IsFinalNormName(name)) << name;
  }
  for (const char* name :
       {"model.layers.0.input_layernorm.weight", "model.layers.3.norm.weight", "visual.norm.weight",
        "model.visual.norm.weight", "supermodel.norm.weight", "norm.bias"}) {
    EXPECT_FALSE(IsFinalNormName(name)) << name;
  }
}

// numpy 2: np.add.reduce(1 / np.arange(1.0, n + 1)).hex()
TEST(PairwiseSumTest, SumsInNumpysOrder) {
  const auto sum = [](size_t n) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = 1 / static_cast<double>(i + 1);
    return PairwiseSum(values);
  };
  EXPECT_EQ(sum(5), 0x1.2444444444444p+1);
  EXPECT_EQ(sum(100), 0x1.4bfdfe4591243p+2);
  EXPECT_EQ(sum(576), 0x1.bbc9c997de6f7p+2);
  EXPECT_EQ(sum(5125), 0x1.23d07a7a2e0bcp+3);
}

}  // namespace
}  // namespace assay
