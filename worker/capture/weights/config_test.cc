#include "worker/capture/weights/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <tuple>

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
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_EQ(config->windows, std::vector<int64_t>(3, 0));
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
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_TRUE(config->o_bias);
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
      {"UNKNOWN_ARCHITECTURE", [](Json& c) { c["architectures"] = {"Qwen3MoeForCausalLM"}; }},
      {"UNKNOWN_ARCHITECTURE", [](Json& c) { c["architectures"] = {"MistralForCausalLM"}; }},
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
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["hidden_act"] = "gelu"; }},
      {"UNSUPPORTED_MODEL_FEATURE",
       [](Json& c) { c["rope_parameters"]["rope_type"] = "longrope"; }},
      {"UNSUPPORTED_MODEL_FEATURE",
       [](Json& c) {
         c["rope_parameters"] = {{"full_attention", {{"rope_theta", 1e4}}}};
       }},
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["use_sliding_window"] = true; }},
      {"UNSUPPORTED_MODEL_FEATURE", [](Json& c) { c["is_causal"] = false; }},
      {"UNSUPPORTED_MODEL_FEATURE",
       [](Json& c) { c["layer_types"] = Json(3, "linear_attention"); }},
      {"FIELD_INVALID", [](Json& c) { c["layer_types"] = Json(2, "full_attention"); }},
      {"FIELD_INVALID", [](Json& c) { c["rope_theta"] = 5e5; }},
      {"FIELD_INVALID", [](Json& c) { c["rope_parameters"]["type"] = "linear"; }},
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
}

// A family that is not built: the message has its name, those that are, and the way out.
TEST(ConfigFromHf, OtherFamiliesAreNamed) {
  for (const char* name :
       {"Qwen3MoeForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM", "Glm5NextForCausalLM",
        "Gemma3ForCausalLM", "MistralForCausalLM", "LlamaModel"}) {
    Json config = ConfigOf("llama");
    config["architectures"] = {name};
    const absl::Status status = ConfigFromHf(config, "c").status();
    EXPECT_EQ(ReasonOf(status), "UNKNOWN_ARCHITECTURE");
    for (const char* part : {name, "LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
                             "qwen3 (GGUF)", "your own engine"}) {
      EXPECT_NE(MessageOf(status).find(part), std::string::npos) << status;
    }
  }
  const Json larger = {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
                       {"text_config", {{"model_type", "qwen3_5_text"}}}};
  const std::string message = MessageOf(ConfigFromHf(larger, "c").status());
  EXPECT_NE(message.find("Qwen3_5ForConditionalGeneration"), std::string::npos) << message;
  EXPECT_NE(message.find("qwen3_5_text"), std::string::npos) << message;
}

TEST(ConfigFromHf, Qwen2HasBiasesOfItsOwn) {
  const auto config = ConfigFromHf(ConfigOf("qwen2-sharded"), "c");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family, "qwen2");
  EXPECT_EQ(config->architecture, "Qwen2ForCausalLM");
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->o_bias);
  EXPECT_FALSE(config->mlp_bias);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_EQ(config->rope_theta, 1e6);
  EXPECT_EQ(config->windows, std::vector<int64_t>(3, 0));
  // Keys of other families change nothing.
  Json other = ConfigOf("qwen2-sharded");
  other["attention_bias"] = false;
  other["mlp_bias"] = true;
  const auto same = ConfigFromHf(other, "c");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->qkv_bias);
  EXPECT_FALSE(same->mlp_bias);
}

// arch-qwen-llama 1.6: which layers have a window, in all spellings.
TEST(ConfigFromHf, SlidingWindows) {
  using Windows = std::vector<int64_t>;
  struct Edit {
    Windows windows;
    std::function<void(Json&)> apply;
  };
  const Edit edits[] = {
      {{0, 0, 16, 16}, [](Json&) {}},
      {{0, 0, 16, 16}, [](Json& c) { c.erase("layer_types"); }},
      {{0, 0, 16, 16}, [](Json& c) { c["layer_types"] = nullptr; }},
      {{0, 0, 0, 16},
       [](Json& c) {
         c.erase("layer_types");
         c["max_window_layers"] = 3;
       }},
      {{16, 16, 16, 16},
       [](Json& c) {
         c.erase("layer_types");
         c["max_window_layers"] = 0;
       }},
      {{0, 0, 0, 0},  // the default of max_window_layers is 28
       [](Json& c) {
         c.erase("layer_types");
         c.erase("max_window_layers");
       }},
      {{0, 0, 16, 16}, [](Json& c) { c["max_window_layers"] = 0; }},  // layer_types wins
      {{0, 0, 4096, 4096}, [](Json& c) { c.erase("sliding_window"); }},
      {{0, 0, 0, 0},  // a window alone means nothing
       [](Json& c) {
         c.erase("layer_types");
         c["use_sliding_window"] = false;
       }},
  };
  for (const Edit& edit : edits) {
    Json json = ConfigOf("qwen2-sliding");
    edit.apply(json);
    const auto config = ConfigFromHf(json, "c");
    ASSERT_TRUE(config.ok()) << config.status() << json;
    EXPECT_EQ(config->windows, edit.windows) << json;
  }
  for (const auto& [key, value] : {std::pair<const char*, Json>{"use_sliding_window", false},
                                   {"sliding_window", nullptr},
                                   {"sliding_window", 0},
                                   {"layer_types", Json(4, 1)}}) {
    Json json = ConfigOf("qwen2-sliding");
    json[key] = value;
    EXPECT_EQ(ReasonOf(ConfigFromHf(json, "c").status()), "FIELD_INVALID") << json;
  }
}

TEST(ConfigFromHf, Qwen3HasHeadsOfItsOwnWidth) {
  const auto config = ConfigFromHf(ConfigOf("qwen3"), "c");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family, "qwen3");
  EXPECT_EQ(config->head_dim, 24);
  EXPECT_EQ(config->heads, 8);
  EXPECT_TRUE(config->qk_norm);
  EXPECT_FALSE(config->qkv_bias);
  const auto defaults = ConfigFromHf(Json::parse(R"({"model_type": "qwen3"})"), "c");
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->vocab, 151936);
  EXPECT_EQ(defaults->ffn, 22016);
  EXPECT_EQ(defaults->kv_heads, 32);
  EXPECT_EQ(defaults->head_dim, 128);
  EXPECT_EQ(defaults->max_positions, 32768);
  Json biased = ConfigOf("qwen3");
  biased["attention_bias"] = true;
  const auto with = ConfigFromHf(biased, "c");
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE(with->qkv_bias);
  EXPECT_TRUE(with->o_bias);
}

// arch-qwen-llama 1.5; the numbers are its formulas, worked out by hand.
TEST(ConfigFromHf, YarnAttentionFactor) {
  const double of4 = 1.1386294361119891;  // 0.1 ln 4 + 1
  const std::tuple<Json, double, double> cases[] = {
      {{}, 4, of4},
      {{{"attention_factor", 1.25}}, 4, 1.25},
      {{{"attention_factor", nullptr}}, 4, of4},
      {{{"mscale", 2.0}, {"mscale_all_dim", 0.5}}, 4, 1.2772588722239781 / 1.0693147180559945},
      {{{"mscale", 2.0}}, 4, of4},
      {{{"mscale", 2.0}, {"mscale_all_dim", 0}}, 4, of4},
      {{{"factor", 1.0}}, 1, 1},
      {{{"factor", nullptr}}, 4, of4},  // 512 / 128
      {{{"factor", nullptr}, {"original_max_position_embeddings", nullptr}}, 1, 1},
      {{{"beta_fast", 0}, {"beta_slow", nullptr}, {"extrapolation_factor", 1}}, 4, of4},
  };
  for (const auto& [edit, factor, attention] : cases) {
    Json json = ConfigOf("qwen3-yarn-tied");
    for (const auto& [key, value] : edit.items()) json["rope_parameters"][key] = value;
    const auto config = ConfigFromHf(json, "c");
    ASSERT_TRUE(config.ok()) << config.status() << json;
    EXPECT_EQ(config->rope.type, RopeType::kYarn);
    EXPECT_EQ(config->rope.factor, factor) << json;
    EXPECT_EQ(config->rope.beta_fast, 32);
    EXPECT_EQ(config->rope.beta_slow, 1);
    EXPECT_DOUBLE_EQ(config->rope.attention_factor, attention) << json;
  }
  const std::pair<const char*, Json> refused[] = {{"original_max_position_embeddings", 0},
                                                  {"factor", -4},
                                                  {"beta_slow", 64},
                                                  {"attention_factor", 0},
                                                  {"rope_theta", 1.0},
                                                  {"factor", "4"}};
  for (const auto& [key, value] : refused) {
    Json json = ConfigOf("qwen3-yarn-tied");
    json["rope_parameters"][key] = value;
    EXPECT_EQ(ReasonOf(ConfigFromHf(json, "c").status()), "FIELD_INVALID") << json;
  }
  Json outside = ConfigOf("qwen3-yarn-tied");
  outside["original_max_position_embeddings"] = 256;
  EXPECT_EQ(ReasonOf(ConfigFromHf(outside, "c").status()), "FIELD_INVALID");
}

// A multimodal model is captured by its language model, when that is a known one.
TEST(ConfigFromHf, TextModelOfALargerOne) {
  Json text = ConfigOf("qwen3-yarn-tied");
  text.erase("architectures");
  text.erase("tie_word_embeddings");
  Json json = {{"architectures", {"SomeVisionForConditionalGeneration"}},
               {"model_type", "some_vision"},
               {"tie_word_embeddings", true},
               {"text_config", text},
               {"vision_config", {{"hidden_size", 16}}}};
  const auto config = ConfigFromHf(json, "c");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "SomeVisionForConditionalGeneration");
  EXPECT_EQ(config->family, "qwen3");
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_TRUE(config->tied);
  json["text_config"]["tie_word_embeddings"] = false;
  const absl::Status status = ConfigFromHf(json, "c").status();
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_NE(MessageOf(status).find("c: text_config"), std::string::npos) << status;
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
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_TRUE(config->o_bias);
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

TEST(ConfigFromGguf, Qwen) {
  const auto qwen2 = GgufFile::Open(DataPath("arch/gguf/qwen2-sharded.bf16.gguf"));
  const auto qwen3 = GgufFile::Open(DataPath("arch/gguf/qwen3-yarn-tied.bf16.gguf"));
  ASSERT_TRUE(qwen2.ok() && qwen3.ok());
  const auto two = ConfigFromGguf(**qwen2), three = ConfigFromGguf(**qwen3);
  ASSERT_TRUE(two.ok()) << two.status();
  ASSERT_TRUE(three.ok()) << three.status();
  auto expected = ConfigFromHf(ConfigOf("qwen2-sharded"), "c");
  const auto same = [](const ModelConfig& got, const ModelConfig& want) {
    EXPECT_EQ(got.family, want.family);
    EXPECT_EQ(got.vocab, want.vocab);
    EXPECT_EQ(got.hidden, want.hidden);
    EXPECT_EQ(got.layers, want.layers);
    EXPECT_EQ(got.heads, want.heads);
    EXPECT_EQ(got.kv_heads, want.kv_heads);
    EXPECT_EQ(got.head_dim, want.head_dim);
    EXPECT_EQ(got.ffn, want.ffn);
    EXPECT_EQ(got.rms_eps, want.rms_eps);
    EXPECT_EQ(got.rope_theta, want.rope_theta);
    EXPECT_EQ(got.rope, want.rope);
    EXPECT_EQ(got.tied, want.tied);
    EXPECT_EQ(got.qkv_bias, want.qkv_bias);
    EXPECT_EQ(got.o_bias, want.o_bias);
    EXPECT_EQ(got.qk_norm, want.qk_norm);
    EXPECT_EQ(got.windows, want.windows);
    EXPECT_EQ(got.max_positions, want.max_positions);
    EXPECT_FALSE(got.gguf_interleaved);
  };
  same(*two, *expected);
  expected = ConfigFromHf(ConfigOf("qwen3-yarn-tied"), "c");
  same(*three, *expected);
}

// Text of a metadata key replaced in the file's bytes, so that lengths stay.
TEST(ConfigFromGguf, QwenRefusalsComeByName) {
  const auto bytes = ReadFile(DataPath("arch/gguf/qwen3-yarn-tied.bf16.gguf"), 1 << 24);
  ASSERT_TRUE(bytes.ok());
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string edited = *bytes;
    EXPECT_EQ(from.size(), to.size());
    edited.replace(edited.find(from), from.size(), to);
    const auto file = GgufFile::Parse(
        std::span(reinterpret_cast<const uint8_t*>(edited.data()), edited.size()), "f.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    return ConfigFromGguf(**file).status();
  };
  EXPECT_EQ(ReasonOf(refusal("qwen3", "gemma")), "UNKNOWN_ARCHITECTURE");
  EXPECT_EQ(ReasonOf(refusal("yarn", "yawn")), "UNSUPPORTED_MODEL_FEATURE");
  EXPECT_EQ(ReasonOf(refusal("qwen3.rope.scaling.factor", "qwen3.rope.scaling.flavor")),
            "FIELD_MISSING");
}

TEST(ConfigFromGguf, TheVocabularyMustBeTheEmbeddings) {
  auto bytes = ReadFile(DataPath("arch/gguf/llama3-rope-tied.bf16.gguf"), 1 << 24);
  ASSERT_TRUE(bytes.ok());
  const std::string key = "llama.vocab_size";  // followed by a type and a u32
  (*bytes)[bytes->find(key) + key.size() + 4] ^= 1;
  const auto file = GgufFile::Parse(
      std::span(reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()), "f.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = ConfigFromGguf(**file).status();
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_NE(MessageOf(status).find("320 rows"), std::string::npos) << status;
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
