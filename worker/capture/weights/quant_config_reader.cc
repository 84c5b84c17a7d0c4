#include "worker/capture/weights/quant_config_reader.h"

#include <algorithm>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/config.h"
#include "worker/capture/weights/foreign_formats.h"

namespace assay {
namespace {

absl::Status OutOfRange(const JsonFields& fields, std::string_view key, const std::string& why) {
  return InvalidError("QUANTIZATION_INVALID", fields.where() + ": " + std::string(key) + " " + why);
}

absl::Status Unsupported(const JsonFields& fields, const std::string& what) {
  return InvalidError("UNSUPPORTED_MODEL_FEATURE",
                      fields.where() + ": " + what +
                          ", which is not computed; capture the model with the engine that serves "
                          "it");
}

bool IsClass(std::string_view target) {
  return target.find('.') == std::string_view::npos && !target.starts_with("re:") &&
         !target.empty() && target[0] >= 'A' && target[0] <= 'Z';
}

}  // namespace

absl::Status QuantConfigReader::Read() {
  const std::string& method = out_.method_;
  if (method == "compressed-tensors") return ReadCompressedTensors();
  if (method == "fp8") return ReadFp8();
  if (method == "gptq") return ReadGptq();
  if (method == "awq") return ReadAwq();
  if (method.starts_with("modelopt")) return ReadModelOpt();
  if (method == "mxfp4") {
    Everything({.format = "mxfp4"});
    return absl::OkStatus();
  }
  out_.foreign_ = NameOfForeignMethod(method);
  return absl::OkStatus();
}

void QuantConfigReader::Everything(QuantScheme scheme) {
  QuantConfig::Group group;
  group.classes = {"Linear", "Embedding"};
  group.scheme = std::move(scheme);
  out_.groups_.push_back(std::move(group));
}

// -1 (and null) stands for one group over all inputs: 0.
absl::StatusOr<uint64_t> QuantConfigReader::GroupSize(const JsonFields& fields,
                                                      std::string_view key) const {
  if (!fields.Has(key)) return uint64_t{0};
  ASSAY_ASSIGN_OR_RETURN(const int64_t group, fields.Int(key, INT64_MIN, INT64_MAX));
  if (group == -1) return uint64_t{0};
  if (group < 1 || group > kModelDimMax)
    return OutOfRange(fields, key, "is " + std::to_string(group) + "; -1 or 1 to 16777216 is");
  return static_cast<uint64_t>(group);
}

absl::StatusOr<int> QuantConfigReader::Bits(const JsonFields& fields, std::string_view key,
                                            const std::vector<int64_t>& allowed) const {
  ASSAY_ASSIGN_OR_RETURN(const int64_t bits, fields.Int(key, INT64_MIN, INT64_MAX));
  if (std::find(allowed.begin(), allowed.end(), bits) != allowed.end())
    return static_cast<int>(bits);
  std::string list;
  for (int64_t value : allowed) list += (list.empty() ? "" : ", ") + std::to_string(value);
  return OutOfRange(fields, key,
                    "is " + std::to_string(bits) + "; " + list + " are decoded" +
                        "; capture the model with the engine that serves it");
}

absl::Status QuantConfigReader::ReadTargets(const Json& list, std::string_view key,
                                            std::vector<NamePattern>* names,
                                            std::vector<std::string>* classes) {
  if (!list.is_array()) return fields_.Invalid(key, "must be a list of names");
  for (const Json& entry : list) {
    if (!entry.is_string()) return fields_.Invalid(key, "must be a list of names");
    const std::string text = entry.get<std::string>();
    if (IsClass(text)) {
      classes->push_back(text);
      continue;
    }
    ASSAY_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(text, fields_.where()));
    names->push_back(std::move(pattern));
  }
  return absl::OkStatus();
}

absl::Status QuantConfigReader::ReadCompressedTensors() {
  std::string format;
  if (fields_.Has("format")) {
    ASSAY_ASSIGN_OR_RETURN(format, fields_.String("format"));
  }
  if (fields_.Has("ignore")) {
    ASSAY_RETURN_IF_ERROR(
        ReadTargets(json_["ignore"], "ignore", &out_.ignore_, &out_.ignored_classes_));
  }
  for (const char* key : {"sparsity_config", "transform_config"}) {
    if (!fields_.Has(key) || json_[key].empty()) continue;
    const Json& part = json_[key];
    const bool dense = part.is_object() && part.value("format", Json("")) == Json("dense");
    if (!dense) return Unsupported(fields_, std::string(key) + " is set");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* groups, fields_.Object("config_groups"));
  for (const auto& [name, group] : groups->items())
    ASSAY_RETURN_IF_ERROR(ReadGroup(name, group, format));
  return absl::OkStatus();
}

absl::Status QuantConfigReader::ReadGroup(const std::string& name, const Json& json,
                                          const std::string& format) {
  const JsonFields fields(json, fields_.where() + ": config_groups: " + name.substr(0, 80));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  if (!fields.Has("weights")) return absl::OkStatus();  // activations only
  QuantConfig::Group group;
  ASSAY_ASSIGN_OR_RETURN(const Json* targets, fields.Array("targets"));
  ASSAY_RETURN_IF_ERROR(ReadTargets(*targets, "targets", &group.names, &group.classes));
  group.scheme.format = format;
  if (fields.Has("format")) {
    ASSAY_ASSIGN_OR_RETURN(group.scheme.format, fields.String("format"));
  }
  const JsonFields weights(json["weights"], fields.where() + ": weights");
  ASSAY_RETURN_IF_ERROR(weights.CheckObject());
  ASSAY_RETURN_IF_ERROR(ReadGroupWeights(weights, group.scheme));
  out_.groups_.push_back(std::move(group));
  return absl::OkStatus();
}

absl::Status QuantConfigReader::ReadGroupWeights(const JsonFields& weights, QuantScheme& scheme) {
  const std::string& format = scheme.format;
  if (format == "naive-quantized") {
    ASSAY_ASSIGN_OR_RETURN(const std::string type, weights.String("type"));
    scheme.format = type == "float" ? "float-quantized" : "int-quantized";
  }
  if (format == "pack-quantized" || format == "int-quantized") {
    ASSAY_ASSIGN_OR_RETURN(scheme.integer.bits, Bits(weights, "num_bits", {2, 3, 4, 5, 6, 7, 8}));
    if (weights.Has("symmetric")) {
      ASSAY_ASSIGN_OR_RETURN(scheme.integer.symmetric, weights.Bool("symmetric"));
    }
  }
  if (format != "pack-quantized" && format != "int-quantized" && format != "float-quantized")
    return absl::OkStatus();  // groups are fixed
  ASSAY_ASSIGN_OR_RETURN(const std::string strategy, weights.String("strategy"));
  ASSAY_ASSIGN_OR_RETURN(const uint64_t group, GroupSize(weights, "group_size"));
  ScaleBlock& block = scheme.integer.block;
  if (strategy == "tensor") {
    block = {0, 0};
  } else if (strategy == "channel") {
    block = {1, 0};
  } else if (strategy == "group") {
    if (group == 0) return OutOfRange(weights, "group_size", "is missing");
    block = {1, group};
  } else if (strategy == "block" && format == "float-quantized") {
    ASSAY_ASSIGN_OR_RETURN(const Json* sizes, weights.Array("block_structure"));
    ASSAY_ASSIGN_OR_RETURN(block, BlockSize(weights, *sizes, "block_structure"));
  } else {
    return OutOfRange(weights, "strategy", "\"" + strategy.substr(0, 80) + "\" is not known");
  }
  return absl::OkStatus();
}

absl::StatusOr<ScaleBlock> QuantConfigReader::BlockSize(const JsonFields& fields, const Json& sizes,
                                                        std::string_view key) const {
  const auto sound = [](const Json& size) {
    return size.is_number_integer() && size >= 1 && size <= kModelDimMax;
  };
  if (!sizes.is_array() || sizes.size() != 2 || !sound(sizes[0]) || !sound(sizes[1]))
    return OutOfRange(fields, key, "must be two sizes from 1 to 16777216, rows and columns");
  return ScaleBlock{sizes[0].get<uint64_t>(), sizes[1].get<uint64_t>()};
}

absl::Status QuantConfigReader::ReadFp8() {
  QuantScheme scheme{.format = "fp8"};
  if (fields_.Has("fmt")) {
    ASSAY_ASSIGN_OR_RETURN(const std::string fmt, fields_.String("fmt"));
    if (fmt != "e4m3") {
      out_.foreign_ = "FP8 " + fmt.substr(0, 20);
      return absl::OkStatus();
    }
  }
  scheme.integer.block = {0, 0};  // told by the shape: one value or one for each channel
  if (fields_.Has("weight_block_size")) {
    ASSAY_ASSIGN_OR_RETURN(scheme.integer.block,
                           BlockSize(fields_, json_["weight_block_size"], "weight_block_size"));
  }
  Everything(std::move(scheme));
  return absl::OkStatus();
}

absl::StatusOr<GptqScheme> QuantConfigReader::ReadGptqScheme(const JsonFields& fields,
                                                             const GptqScheme* base) {
  GptqScheme scheme = base == nullptr ? GptqScheme() : *base;
  if (base == nullptr || fields.Has("bits")) {
    ASSAY_ASSIGN_OR_RETURN(scheme.bits, Bits(fields, "bits", {2, 3, 4, 8}));
  }
  if (base == nullptr || fields.Has("group_size")) {
    ASSAY_ASSIGN_OR_RETURN(scheme.group, GroupSize(fields, "group_size"));
  }
  // Without it the meaning of a stored zero cannot be known.
  if (base == nullptr || fields.Has("sym")) {
    ASSAY_ASSIGN_OR_RETURN(scheme.symmetric, fields.Bool("sym"));
  }
  return scheme;
}

absl::Status QuantConfigReader::ReadGptq() {
  QuantScheme scheme{.format = "gptq"};
  ASSAY_ASSIGN_OR_RETURN(scheme.gptq, ReadGptqScheme(fields_, nullptr));
  std::string version = "gptq";
  if (fields_.Has("checkpoint_format")) {
    ASSAY_ASSIGN_OR_RETURN(version, fields_.String("checkpoint_format"));
  }
  bool marlin = false;
  if (fields_.Has("is_marlin_format")) {
    ASSAY_ASSIGN_OR_RETURN(marlin, fields_.Bool("is_marlin_format"));
  }
  if (marlin || (version != "gptq" && version != "gptq_v2")) {
    out_.foreign_ =
        "GPTQ in the layout \"" + (marlin ? std::string("marlin") : version.substr(0, 40)) + "\"";
    return absl::OkStatus();
  }
  scheme.gptq.zero_plus_one = version == "gptq";
  if (fields_.Has("desc_act")) {
    ASSAY_ASSIGN_OR_RETURN(scheme.needs_index, fields_.Bool("desc_act"));
  }
  if (fields_.Has("dynamic")) ASSAY_RETURN_IF_ERROR(ReadGptqDynamic(scheme));
  Everything(std::move(scheme));
  return absl::OkStatus();
}

// GPTQModel's exceptions: "-:PATTERN" is left alone, "+:PATTERN" or "PATTERN" has other numbers.
absl::Status QuantConfigReader::ReadGptqDynamic(const QuantScheme& base) {
  ASSAY_ASSIGN_OR_RETURN(const Json* rules, fields_.Object("dynamic"));
  for (const auto& [key, json] : rules->items()) {
    const bool signed_rule = key.starts_with("-:") || key.starts_with("+:");
    const std::string where = fields_.where() + ": dynamic";
    ASSAY_ASSIGN_OR_RETURN(NamePattern pattern,
                           NamePattern::Expression(signed_rule ? key.substr(2) : key, where));
    if (key.starts_with("-:")) {
      out_.ignore_.push_back(std::move(pattern));
      continue;
    }
    const JsonFields fields(json, where);
    ASSAY_RETURN_IF_ERROR(fields.CheckObject());
    QuantConfig::Group group;
    group.scheme = base;
    ASSAY_ASSIGN_OR_RETURN(group.scheme.gptq, ReadGptqScheme(fields, &base.gptq));
    if (fields.Has("desc_act")) {
      ASSAY_ASSIGN_OR_RETURN(group.scheme.needs_index, fields.Bool("desc_act"));
    }
    group.names.push_back(std::move(pattern));
    out_.groups_.push_back(std::move(group));
  }
  return absl::OkStatus();
}

absl::Status QuantConfigReader::ReadAwq() {
  QuantScheme scheme{.format = "awq"};
  std::string version = "gemm";
  if (fields_.Has("version")) {
    ASSAY_ASSIGN_OR_RETURN(version, fields_.String("version"));
  }
  if (version != "gemm" && version != "GEMM") {
    out_.foreign_ = "AWQ in the layout \"" + version.substr(0, 40) + "\"";
    return absl::OkStatus();
  }
  ASSAY_RETURN_IF_ERROR(Bits(fields_, fields_.Has("w_bit") ? "w_bit" : "bits", {4}).status());
  const char* group = fields_.Has("q_group_size") ? "q_group_size" : "group_size";
  ASSAY_ASSIGN_OR_RETURN(scheme.gptq.group, GroupSize(fields_, group));
  Everything(std::move(scheme));
  return absl::OkStatus();
}

absl::Status QuantConfigReader::ReadModelOpt() {
  constexpr std::string_view kAlgorithms =
      " NVFP4 W4A16_NVFP4 FP8 FP8_PER_CHANNEL_PER_TOKEN MXFP8 MIXED_PRECISION ";
  if (fields_.Has("quant_algo")) {
    ASSAY_ASSIGN_OR_RETURN(const std::string algorithm, fields_.String("quant_algo"));
    if (kAlgorithms.find(" " + algorithm + " ") == std::string_view::npos) {
      out_.foreign_ = "ModelOpt " + algorithm.substr(0, 40);
      return absl::OkStatus();
    }
  }
  Everything({.format = "modelopt"});  // each module's tensors tell which one it is
  return absl::OkStatus();
}

}  // namespace assay
