#include "worker/capture/weights/quant_config.h"

#include <algorithm>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/foreign_formats.h"
#include "worker/capture/weights/quant_config_reader.h"

namespace assay {
namespace {

// The name that engines give to the fused form of a module; "" when it has none.
std::string FusedName(std::string_view module) {
  const size_t dot = module.rfind('.');
  const size_t at = dot == std::string_view::npos ? 0 : dot + 1;
  const std::string_view last = module.substr(at);
  std::string_view fused;
  if (last == "q_proj" || last == "k_proj" || last == "v_proj") fused = "qkv_proj";
  if (last == "gate_proj" || last == "up_proj") fused = "gate_up_proj";
  if (fused.empty()) return "";
  return std::string(module.substr(0, at)) + std::string(fused);
}

// The class of a module, as far as targets name it.
std::string_view ClassOf(std::string_view module) {
  return module.ends_with("embed_tokens") ? "Embedding" : "Linear";
}

bool AnyMatches(const std::vector<NamePattern>& patterns, std::string_view module,
                const std::string& fused) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const NamePattern& pattern) {
    return pattern.Matches(module) || (!fused.empty() && pattern.Matches(fused));
  });
}

bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

const QuantScheme* QuantConfig::SchemeOf(std::string_view module) const {
  const std::string fused = FusedName(module);
  const std::string_view kind = ClassOf(module);
  if (AnyMatches(ignore_, module, fused) || Contains(ignored_classes_, kind)) return nullptr;
  // A name says more than a class, whatever the order of the groups.
  for (const Group& group : groups_) {
    if (AnyMatches(group.names, module, fused)) return &group.scheme;
  }
  for (const Group& group : groups_) {
    if (Contains(group.classes, kind)) return &group.scheme;
  }
  return nullptr;
}

absl::StatusOr<QuantConfig> QuantConfig::Parse(const Json& config, std::string_view where) {
  QuantConfig out;
  const bool mlx = config.contains("quantization") && config["quantization"].is_object();
  if (!config.contains("quantization_config") || config["quantization_config"].is_null()) {
    if (mlx) out.method_ = "mlx", out.foreign_ = "MLX";
    return out;
  }
  const Json& json = config["quantization_config"];
  const JsonFields fields(json, std::string(where) + ": quantization_config");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  if (!fields.Has("quant_method") && (mlx || (fields.Has("bits") && fields.Has("group_size")))) {
    out.method_ = "mlx", out.foreign_ = "MLX";
    return out;
  }
  ASSAY_ASSIGN_OR_RETURN(out.method_, fields.String("quant_method"));
  if (out.method_.empty()) return fields.Invalid("quant_method", "must not be empty");
  QuantConfigReader reader(fields, json, out);
  ASSAY_RETURN_IF_ERROR(reader.Read());
  return out;
}

}  // namespace assay
