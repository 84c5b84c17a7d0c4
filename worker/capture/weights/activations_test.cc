#include "worker/capture/weights/activations.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

std::string Scheme(const char* quantization) {
  return ActivationScheme({{"quantization_config", Json::parse(quantization)}});
}

// Blocks as the tools write them.
TEST(Activations, WhatCheckpointsSayOfTheInputsOfTheirLayers) {
  EXPECT_EQ(Scheme(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
      "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"},
      "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true}}}})"),
            "8-bit integer");
  EXPECT_EQ(Scheme(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {
      "group_0": {"input_activations": {"num_bits": 4, "type": "float", "group_size": 16}}}})"),
            "4-bit float, groups of 16");
  EXPECT_EQ(Scheme(R"({"quant_method": "modelopt", "quant_algo": "FP8"})"), "8-bit float");
  EXPECT_EQ(Scheme(R"({"quant_method": "fp8", "activation_scheme": "dynamic",
      "weight_block_size": [128, 128]})"),
            "8-bit float");
  const Json nested = {
      {"text_config",
       {{"quantization_config",
         Json::parse(R"({"quant_method": "fp8", "activation_scheme": "static"})")}}}};
  EXPECT_EQ(ActivationScheme(nested), "8-bit float");
}

TEST(Activations, WeightOnlyCheckpointsSayNothing) {
  EXPECT_EQ(Scheme(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
      "weights": {"num_bits": 4, "type": "int"}, "input_activations": null}}})"),
            "");
  EXPECT_EQ(Scheme(R"({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"})"), "");
  EXPECT_EQ(Scheme(R"({"quant_method": "gptq", "bits": 4})"), "");
  EXPECT_EQ(Scheme(R"({"quant_method": "mxfp4"})"), "");
  EXPECT_EQ(ActivationScheme(Json::object()), "");
  EXPECT_EQ(ActivationScheme(Json::parse(R"({"quantization_config": null})")), "");
}

}  // namespace
}  // namespace assay
