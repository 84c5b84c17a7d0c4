// Cases of packed weights with known answers (tests/data/weights/README.md): tensors
// "<case>.<name>", the expected float32 matrix "<case>.expected", and the metadata key "cases".

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_WEIGHT_CASES_TEST_UTIL_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_WEIGHT_CASES_TEST_UTIL_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/bf16.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/decode.h"
#include "worker/capture/weights/packed_open.h"

namespace assay {

inline constexpr char kCaseModule[] = "model.layers.0.mlp.down_proj";

struct WeightCase {
  std::string name;
  Json config;                                // a config.json with its quantization_config
  std::map<std::string, TensorView> tensors;  // under the names a checkpoint gives them
  TensorView expected;                        // F32 [..., rows, cols]
  TensorView library;                         // in the library's own type; no bytes: none
  PackedQuery query;
};

// The configuration that a checkpoint of a case would carry.
inline Json CaseConfig(const Json& about) {
  const std::string format = about.at("format");
  if (about.contains("quantization_config"))
    return {{"quantization_config", about.at("quantization_config")}};
  Json config = {{"quant_method", "compressed-tensors"}, {"format", format}};
  if (format == "fp8-block") {
    config = {{"quant_method", "fp8"}, {"weight_block_size", about.at("block")}};
  } else if (format == "modelopt-nvfp4") {
    config = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  } else if (format == "mxfp4-blocks") {
    config = {{"quant_method", "mxfp4"}};
  } else {
    config["config_groups"] = {
        {"group_0", {{"targets", {"Linear"}}, {"weights", about.at("weights")}}}};
  }
  return {{"quantization_config", config}};
}

inline absl::StatusOr<WeightCase> ReadWeightCase(const SafetensorsFile& file,
                                                 const std::string& name, const Json& about) {
  WeightCase out;
  out.name = name;
  out.config = CaseConfig(about);
  const std::string module = kCaseModule;
  for (TensorView view : file.tensors()) {
    if (!view.name.starts_with(name + ".")) continue;
    std::string part = view.name.substr(name.size() + 1);
    if (part == "expected") {
      out.expected = view;
    } else if (part == "library") {
      out.library = view;
    } else {
      // gpt-oss names the parameter, not the module.
      if (part.starts_with("gate_up_proj_")) part.replace(0, 12, "weight");
      view.name = module + "." + part;
      out.tensors[view.name] = view;
    }
  }
  if (out.expected.shape.size() < 2 || out.expected.dtype != DType::kF32)
    return InvalidError("FIELD_INVALID", file.path() + ": " + name + " has no expected matrix");
  out.query = {module + ".weight", 0, out.expected.shape.back(), file.path()};
  out.query.rows = out.expected.elements() / out.query.cols;
  return out;
}

inline absl::StatusOr<PackedWeight> OpenCase(const WeightCase& c) {
  ASSAY_ASSIGN_OR_RETURN(const QuantConfig config, QuantConfig::Parse(c.config, "config.json"));
  return OpenPackedWeight(config, c.query, [&](std::string_view name) -> const TensorView* {
    const auto it = c.tensors.find(std::string(name));
    return it == c.tensors.end() ? nullptr : &it->second;
  });
}

// Decodes `step` rows at a time.
inline std::vector<float> DecodeCase(const WeightCase& c, const PackedTensor& tensor,
                                     uint64_t step) {
  std::vector<float> out(c.query.rows * c.query.cols);
  for (uint64_t row = 0; row < c.query.rows; row += step) {
    tensor.Decode(row, std::min(c.query.rows, row + step), &out[row * c.query.cols]);
  }
  return out;
}

// "" when every value has the expected bits (any NaN for a NaN), else where the first differs.
inline std::string CompareBits(const std::vector<float>& got, const TensorView& expected) {
  for (size_t i = 0; i < got.size(); ++i) {
    uint32_t want, have;
    float value;
    std::memcpy(&want, expected.bytes.data() + 4 * i, 4);
    std::memcpy(&have, &got[i], 4);
    std::memcpy(&value, &want, 4);
    if (want == have || (value != value && got[i] != got[i])) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
           std::to_string(value);
  }
  return "";
}

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_WEIGHT_CASES_TEST_UTIL_H_
