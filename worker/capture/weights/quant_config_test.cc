#include "worker/capture/weights/quant_config.h"

#include <gtest/gtest.h>

#include "storage/base/status.h"

namespace assay {
namespace {

Json Weights(int bits) {
  return {{"num_bits", bits}, {"type", "int"}, {"symmetric", true}, {"strategy", "channel"}};
}

Json CompressedTensors() {
  return {{"quantization_config",
           {{"quant_method", "compressed-tensors"},
            {"format", "pack-quantized"},
            {"ignore", Json::array()},
            {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", Weights(4)}}}}}}}};
}

QuantConfig Parsed(const Json& config) {
  const auto parsed = QuantConfig::Parse(config, "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : QuantConfig();
}

int BitsOf(const QuantConfig& config, const std::string& module) {
  const QuantScheme* scheme = config.SchemeOf(module);
  return scheme == nullptr ? 0 : scheme->integer.bits;
}

TEST(QuantConfig, NoneIsNone) {
  const QuantConfig config = Parsed(Json::object());
  EXPECT_FALSE(config.present());
  EXPECT_EQ(config.SchemeOf("model.layers.0.mlp.up_proj"), nullptr);
}

TEST(QuantConfig, IgnoreListsNameModulesExpressionsAndFusedModules) {
  Json json = CompressedTensors();
  json["quantization_config"]["ignore"] = {"lm_head", "re:.*layers\\.1\\.", "re:^visual",
                                           "model.layers.2.self_attn.qkv_proj",
                                           "re:.*3\\.mlp\\.gate_up_proj$"};
  const QuantConfig config = Parsed(json);
  EXPECT_EQ(BitsOf(config, "lm_head"), 0);
  EXPECT_EQ(BitsOf(config, "model.layers.1.mlp.up_proj"), 0);
  EXPECT_EQ(BitsOf(config, "model.layers.10.mlp.up_proj"), 4);
  EXPECT_EQ(BitsOf(config, "model.visual.up_proj"), 4);  // expressions start at the name's start
  for (const char* part : {"q_proj", "k_proj", "v_proj"})
    EXPECT_EQ(BitsOf(config, std::string("model.layers.2.self_attn.") + part), 0);
  EXPECT_EQ(BitsOf(config, "model.layers.2.self_attn.o_proj"), 4);
  EXPECT_EQ(BitsOf(config, "model.layers.3.mlp.up_proj"), 0);
  EXPECT_EQ(BitsOf(config, "model.layers.3.mlp.down_proj"), 4);
  EXPECT_EQ(BitsOf(config, "model.embed_tokens"), 0);  // no Linear
}

TEST(QuantConfig, NamedGroupsGoBeforeClasses) {
  Json json = CompressedTensors();
  Json& groups = json["quantization_config"]["config_groups"];
  groups["group_1"] = {{"targets", {"re:.*down_proj"}}, {"weights", Weights(8)}};
  groups["group_2"] = {{"targets", {"model.layers.0.self_attn.o_proj"}},
                       {"format", "int-quantized"},
                       {"weights", Weights(8)}};
  groups["group_3"] = {{"targets", {"Embedding"}}, {"weights", nullptr}};
  const QuantConfig config = Parsed(json);
  EXPECT_EQ(BitsOf(config, "model.layers.0.mlp.down_proj"), 8);
  EXPECT_EQ(BitsOf(config, "model.layers.0.mlp.up_proj"), 4);
  EXPECT_EQ(config.SchemeOf("model.layers.0.self_attn.o_proj")->format, "int-quantized");
  EXPECT_EQ(config.SchemeOf("model.layers.1.self_attn.o_proj")->format, "pack-quantized");
}

TEST(QuantConfig, GptqExceptions) {
  const Json json = {
      {"quantization_config",
       {{"quant_method", "gptq"},
        {"bits", 4},
        {"group_size", 128},
        {"sym", true},
        {"dynamic",
         {{"-:.*lm_head", Json::object()}, {"+:.*down", {{"bits", 8}, {"group_size", 32}}}}}}}};
  const QuantConfig config = Parsed(json);
  EXPECT_EQ(config.SchemeOf("lm_head"), nullptr);
  EXPECT_EQ(config.SchemeOf("model.layers.0.mlp.down_proj")->gptq.bits, 8);
  EXPECT_EQ(config.SchemeOf("model.layers.0.mlp.down_proj")->gptq.group, 32u);
  EXPECT_EQ(config.SchemeOf("model.layers.0.mlp.up_proj")->gptq.bits, 4);
}

TEST(QuantConfig, WhatChangesTheForwardPassIsRefused) {
  for (const char* key : {"transform_config", "sparsity_config"}) {
    Json json = CompressedTensors();
    json["quantization_config"][key] = {{"format", "sparse-24-bitmask"}};
    EXPECT_EQ(ReasonOf(QuantConfig::Parse(json, "config.json").status()),
              "UNSUPPORTED_MODEL_FEATURE");
    json["quantization_config"][key] = {{"format", "dense"}};
    EXPECT_TRUE(QuantConfig::Parse(json, "config.json").ok());
    json["quantization_config"][key] = Json::object();
    EXPECT_TRUE(QuantConfig::Parse(json, "config.json").ok());
  }
}

TEST(QuantConfig, HostileFieldsAreNamed) {
  const auto reason = [](const std::function<void(Json&)>& edit) {
    Json json = CompressedTensors();
    edit(json["quantization_config"]);
    return ReasonOf(QuantConfig::Parse(json, "config.json").status());
  };
  EXPECT_EQ(reason([](Json& q) { q = 3; }), "FIELD_INVALID");
  EXPECT_EQ(reason([](Json& q) { q = {{"quant_method", 4}}; }), "FIELD_INVALID");
  EXPECT_EQ(reason([](Json& q) { q = Json::object(); }), "FIELD_MISSING");
  EXPECT_EQ(reason([](Json& q) { q.erase("config_groups"); }), "FIELD_MISSING");
  EXPECT_EQ(reason([](Json& q) { q["config_groups"]["group_0"] = {"Linear"}; }), "FIELD_INVALID");
  EXPECT_EQ(reason([](Json& q) { q["ignore"] = {7}; }), "FIELD_INVALID");
  EXPECT_EQ(reason([](Json& q) { q["ignore"] = {"re:(("}; }), "FIELD_INVALID");
  EXPECT_EQ(reason([](Json& q) { q["ignore"] = {"re:" + std::string(5000, 'a')}; }),
            "FIELD_INVALID");
  EXPECT_EQ(
      reason([](Json& q) { q["config_groups"]["group_0"]["weights"]["strategy"] = "lattice"; }),
      "QUANTIZATION_INVALID");
  const Json blocks[] = {Json{128}, Json{0, 128}, Json{-1, 128}, Json{128, 1e9}, Json("128")};
  for (const Json& block : blocks) {
    const Json json = {
        {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", block}}}};
    EXPECT_EQ(ReasonOf(QuantConfig::Parse(json, "config.json").status()), "QUANTIZATION_INVALID")
        << block.dump();
  }
}

// Backtracking would take longer than the universe has.
TEST(QuantConfig, HostileExpressionsEnd) {
  Json json = CompressedTensors();
  json["quantization_config"]["ignore"] = {"re:(a+)+(a+)+(a+)+$"};
  const QuantConfig config = Parsed(json);
  EXPECT_NE(config.SchemeOf(std::string(200, 'a') + "b"), nullptr);
}

}  // namespace
}  // namespace assay
