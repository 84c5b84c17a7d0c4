#include "worker/capture/weights/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

Json ConfigOf(const std::string& model) {
  auto json = ReadJsonFile(DataPath("arch/" + model + "/config.json"));
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Json();
}

TEST(ConfigFromHf, CurrentSpelling) {
  const auto config = ConfigFromHf(ConfigOf("llama"), "config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family, "llama");
  EXPECT_EQ(config->architecture, "LlamaForCausalLM");
  EXPECT_EQ(config->vocab, 320);
  EXPECT_EQ(config->hidden, 64);
  EXPECT_EQ(config->layers, 3);
  EXPECT_EQ(config->heads, 8);
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->ffn, 192);
  EXPECT_EQ(config->rms_eps, 1e-3f);
  EXPECT_EQ(config->rope_theta, 10000.0);
  EXPECT_EQ(config->rope.type, RopeType::kNone);
  EXPECT_FALSE(config->tied);
  EXPECT_FALSE(config->attention_bias);
}

TEST(ConfigFromHf, OlderSpelling) {
  const auto config = ConfigFromHf(ConfigOf("llama3-rope-tied"), "config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rope_theta, 500000.0);
  EXPECT_EQ(config->rope.type, RopeType::kLlama3);
  EXPECT_EQ(config->rope.factor, 8);
  EXPECT_EQ(config->rope.low_freq_factor, 1);
  EXPECT_EQ(config->rope.high_freq_factor, 4);
  EXPECT_EQ(config->rope.original_max_positions, 64);
  EXPECT_TRUE(config->tied);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_TRUE(config->mlp_bias);
}

// Defaults of arch-qwen-llama section 2 for keys that are absent or null.
TEST(ConfigFromHf, Defaults) {
  const auto config = ConfigFromHf(
      Json::parse(R"({"model_type": "llama", "head_dim": null, "rope_scaling": null})"), "c");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vocab, 32000);
  EXPECT_EQ(config->hidden, 4096);
  EXPECT_EQ(config->ffn, 11008);
  EXPECT_EQ(config->layers, 32);
  EXPECT_EQ(config->kv_heads, 32);
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_EQ(config->rms_eps, 1e-6f);
  EXPECT_EQ(config->rope_theta, 10000.0);
}

TEST(ConfigFromHf, RefusalsComeByName) {
  struct Edit {
    const char* reason;
    std::function<void(Json&)> apply;
  };
  const Edit edits[] = {
      {"UNKNOWN_ARCHITECTURE", [](Json& c) { c["architectures"] = {"Qwen3ForCausalLM"}; }},
      {"UNKNOWN_ARCHITECTURE",
       [](Json& c) {
         c.erase("architectures");
         c["model_type"] = "mixtral";
       }},
      {"UNKNOWN_ARCHITECTURE",
       [](Json& c) {
         c.erase("architectures");
         c.erase("model_type");
       }},
      {"FIELD_INVALID", [](Json& c) { c["architectures"] = "LlamaForCausalLM"; }},
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["quantization_config"] = Json::object(); }},
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["hidden_act"] = "gelu"; }},
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["rope_parameters"]["rope_type"] = "yarn"; }},
      {"UNSUPPORTED_MODEL_FEATURE",
       [](Json& c) { c["rope_parameters"]["partial_rotary_factor"] = 0.5; }},
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["partial_rotary_factor"] = 0.5; }},
      {"FIELD_MISSING", [](Json& c) { c["rope_parameters"]["rope_type"] = "llama3"; }},
      {"FIELD_INVALID",
       [](Json& c) {
         c["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
       }},
      {"UNSUPPORTED_MODEL_FEATURE",
       [](Json& c) {
         c["rope_scaling"] = {{"type", "weird"}};
       }},
      {"FIELD_INVALID", [](Json& c) { c["num_key_value_heads"] = 3; }},
      {"FIELD_INVALID", [](Json& c) { c["head_dim"] = 7; }},
      {"FIELD_INVALID", [](Json& c) { c["hidden_size"] = 0; }},
      {"FIELD_INVALID", [](Json& c) { c["hidden_size"] = 1e30; }},
      {"FIELD_INVALID", [](Json& c) { c["hidden_size"] = "64"; }},
      {"FIELD_INVALID", [](Json& c) { c["num_hidden_layers"] = 5000; }},
      {"FIELD_INVALID", [](Json& c) { c["rms_norm_eps"] = 0; }},
      {"FIELD_INVALID", [](Json& c) { c["rope_parameters"]["rope_theta"] = -1; }},
      {"FIELD_INVALID",
       [](Json& c) {
         c["num_attention_heads"] = 16777216;
         c["num_key_value_heads"] = 1;
       }},
  };
  for (const Edit& edit : edits) {
    Json config = ConfigOf("llama");
    edit.apply(config);
    const auto got = ConfigFromHf(config, "m/config.json");
    EXPECT_EQ(ReasonOf(got.status()), edit.reason) << config.dump();
    EXPECT_NE(MessageOf(got.status()).find("m/config.json"), std::string::npos);
  }
  Json qwen = ConfigOf("llama");
  qwen["architectures"] = {"Qwen3ForCausalLM"};
  const std::string message = MessageOf(ConfigFromHf(qwen, "c").status());
  EXPECT_NE(message.find("Qwen3ForCausalLM"), std::string::npos);
  EXPECT_NE(message.find("LlamaForCausalLM"), std::string::npos) << message;
}

// llama.cpp's converter stores llama3 scaling as divisors; torch's inv_freq is in the golden file.
TEST(ConfigFromGguf, DivisorsGiveTheGoldenFrequencies) {
  const auto file = GgufFile::Open(DataPath("arch/gguf/llama3-rope-tied.bf16.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto config = ConfigFromGguf(**file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family, "llama");
  EXPECT_EQ(config->vocab, 320);
  EXPECT_EQ(config->layers, 3);
  EXPECT_EQ(config->heads, 8);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->ffn, 192);
  EXPECT_EQ(config->rms_eps, 1e-5f);
  EXPECT_TRUE(config->tied);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_TRUE(config->mlp_bias);
  EXPECT_EQ(config->rope.type, RopeType::kNone);
  ASSERT_EQ(config->rope.divisors.size(), 8u);

  const auto golden = SafetensorsFile::Open(DataPath("arch/llama3-rope-tied/golden.safetensors"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  const auto inv_freq = (*golden)->Find("rope.inv_freq");
  ASSERT_TRUE(inv_freq.ok()) << inv_freq.status();
  for (size_t j = 0; j < 8; ++j) {
    float want;
    std::memcpy(&want, inv_freq->bytes.data() + 4 * j, 4);
    const double plain = std::pow(config->rope_theta, -2.0 * static_cast<double>(j) / 16);
    EXPECT_NEAR(plain / config->rope.divisors[j] / want, 1.0, 1e-6) << j;
  }
}

TEST(ConfigFromGguf, MissingKeysAreNamed) {
  // The container fixture says llama and has no hyper-parameters.
  const auto file = GgufFile::Open(DataPath("weights/gguf-quants.gguf"));
  ASSERT_TRUE(file.ok());
  const auto config = ConfigFromGguf(**file);
  EXPECT_EQ(ReasonOf(config.status()), "FIELD_MISSING");
  EXPECT_NE(MessageOf(config.status()).find("llama.block_count"), std::string::npos);
}

}  // namespace
}  // namespace assay
