#include "worker/capture/weights/activations.h"

#include "storage/base/files.h"
#include "storage/base/macros.h"

namespace assay {
namespace {

constexpr uint64_t kConfigBytesMax = uint64_t{64} << 20;

std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

const Json* ObjectIn(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? &*it : nullptr;
}

// compressed-tensors' arguments of one kind of tensor; ModelOpt has taken the form over.
std::string OfArguments(const Json& arguments) {
  const auto bits = arguments.find("num_bits");
  if (bits == arguments.end() || !bits->is_number_unsigned()) return "";
  if (bits->get<uint64_t>() >= 16) return "";
  const std::string type = Text(arguments, "type");
  std::string text =
      std::to_string(bits->get<uint64_t>()) + "-bit " + (type == "float" ? "float" : "integer");
  const auto group = arguments.find("group_size");
  if (group != arguments.end() && group->is_number_unsigned() && group->get<uint64_t>() > 0) {
    text += ", groups of " + std::to_string(group->get<uint64_t>());
  }
  return text;
}

std::string OfGroups(const Json& quantization) {
  const Json* groups = ObjectIn(quantization, "config_groups");
  if (groups == nullptr) return "";
  std::string all;
  for (const auto& [name, group] : groups->items()) {
    if (!group.is_object()) continue;
    const Json* arguments = ObjectIn(group, "input_activations");
    const std::string one = arguments == nullptr ? "" : OfArguments(*arguments);
    if (!one.empty() && all.find(one) == std::string::npos) {
      all += (all.empty() ? "" : "; ") + one;
    }
  }
  return all;
}

// ModelOpt's names of algorithms that quantize activations too; those for weights only say so.
std::string OfModelOpt(const std::string& algorithm) {
  if (algorithm == "NVFP4") return "4-bit float, groups of 16";
  if (algorithm == "MXFP8") return "8-bit float, groups of 32";
  if (algorithm.starts_with("FP8") && !algorithm.ends_with("_WO")) return "8-bit float";
  if (algorithm.starts_with("MIXED")) return "by layer, " + algorithm;
  return "";
}

}  // namespace

std::string ActivationScheme(const Json& config) {
  if (!config.is_object()) return "";
  const Json* quantization = ObjectIn(config, "quantization_config");
  if (quantization == nullptr) {
    if (const Json* text = ObjectIn(config, "text_config")) {
      quantization = ObjectIn(*text, "quantization_config");
    }
  }
  if (quantization == nullptr) return "";
  if (const std::string groups = OfGroups(*quantization); !groups.empty()) return groups;
  const std::string method = Text(*quantization, "quant_method");
  // The method multiplies in FP8; the scheme says when scales are taken.
  if (method == "fp8") {
    const std::string scheme = Text(*quantization, "activation_scheme");
    return scheme == "dynamic" || scheme == "static" ? "8-bit float" : "";
  }
  if (method.starts_with("modelopt")) return OfModelOpt(Text(*quantization, "quant_algo"));
  return "";
}

absl::StatusOr<std::string> ActivationSchemeOfModel(const std::string& model_path) {
  if (!IsDirectory(model_path)) return std::string();
  ASSAY_ASSIGN_OR_RETURN(const Json config,
                         ReadJsonFile(JoinPath(model_path, "config.json"), kConfigBytesMax));
  return ActivationScheme(config);
}

}  // namespace assay
