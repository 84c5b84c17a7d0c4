// ModelConfig from a Hugging Face config.json (arch-qwen-llama sections 1.5 and 2).

#include <cmath>
#include <limits>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/config.h"
#include "worker/capture/weights/config_check.h"

namespace assay {
namespace {

absl::Status Unsupported(const std::string& where, const std::string& what) {
  return InvalidError("UNSUPPORTED_MODEL_FEATURE",
                      where + ": " + what + "; use a checkpoint without it");
}

// The first entry of `architectures`, else model_type; either may be missing in old files.
absl::StatusOr<std::string> Architecture(const JsonFields& fields, const Json& config) {
  std::string name = "(none)";
  if (fields.Has("architectures")) {
    const Json& list = config["architectures"];
    if (!list.is_array() || list.empty() || !list[0].is_string())
      return fields.Invalid("architectures", "must be a list of names");
    name = list[0].get<std::string>();
    if (name == "LlamaForCausalLM") return name;
  } else if (fields.Has("model_type")) {
    ASSAY_ASSIGN_OR_RETURN(name, fields.String("model_type"));
    if (name == "llama") return std::string("LlamaForCausalLM");
  }
  return UnknownArchitecture(fields.where(), name);
}

absl::StatusOr<int64_t> Dim(const JsonFields& fields, std::string_view key, int64_t fallback) {
  if (!fields.Has(key)) return fallback;
  return fields.Int(key, 1, kModelDimMax);
}

absl::StatusOr<bool> Flag(const JsonFields& fields, std::string_view key) {
  if (!fields.Has(key)) return false;
  return fields.Bool(key);
}

absl::StatusOr<double> NumberOr(const JsonFields& fields, std::string_view key, double fallback) {
  if (!fields.Has(key)) return fallback;
  return fields.Number(key);
}

// `scaling` is v5's rope_parameters or v4's rope_scaling.
absl::Status ReadScaling(const Json& scaling, const std::string& where, ModelConfig& out) {
  const JsonFields fields(scaling, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  out.rope = {};
  std::string type = "default";
  for (const char* key : {"type", "rope_type"}) {  // rope_type, when present, is the newer word
    if (!fields.Has(key)) continue;
    ASSAY_ASSIGN_OR_RETURN(type, fields.String(key));
  }
  ASSAY_ASSIGN_OR_RETURN(const double rotary, NumberOr(fields, "partial_rotary_factor", 1));
  if (rotary != 1) return Unsupported(where, "partial_rotary_factor is not 1");
  ASSAY_ASSIGN_OR_RETURN(out.rope_theta, NumberOr(fields, "rope_theta", out.rope_theta));
  if (type == "default") return absl::OkStatus();
  if (type != "linear" && type != "llama3")
    return Unsupported(where, "rope type \"" + type.substr(0, 80) + "\" is not supported");
  out.rope.type = type == "linear" ? RopeType::kLinear : RopeType::kLlama3;
  ASSAY_ASSIGN_OR_RETURN(out.rope.factor, fields.Number("factor"));
  if (out.rope.type == RopeType::kLlama3) {
    ASSAY_ASSIGN_OR_RETURN(out.rope.low_freq_factor, fields.Number("low_freq_factor"));
    ASSAY_ASSIGN_OR_RETURN(out.rope.high_freq_factor, fields.Number("high_freq_factor"));
    ASSAY_ASSIGN_OR_RETURN(out.rope.original_max_positions,
                           fields.Number("original_max_position_embeddings"));
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const JsonFields& fields, const Json& config, ModelConfig& out) {
  ASSAY_ASSIGN_OR_RETURN(out.rope_theta, NumberOr(fields, "rope_theta", 10000));
  ASSAY_ASSIGN_OR_RETURN(const double rotary, NumberOr(fields, "partial_rotary_factor", 1));
  if (rotary != 1) return Unsupported(fields.where(), "partial_rotary_factor is not 1");
  ModelConfig first;  // what the key read before gave
  bool read = false;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!fields.Has(key)) continue;
    ASSAY_RETURN_IF_ERROR(ReadScaling(config[key], fields.where() + ": " + key, out));
    if (read && (out.rope != first.rope || out.rope_theta != first.rope_theta)) {
      return InvalidError("FIELD_INVALID", fields.where() +
                                               ": rope_parameters and rope_scaling contradict each "
                                               "other; leave the one that the model was trained "
                                               "with");
    }
    first = out;
    read = true;
  }
  return absl::OkStatus();
}

absl::Status CheckActivation(const JsonFields& fields) {
  if (!fields.Has("hidden_act")) return absl::OkStatus();
  const auto activation = fields.String("hidden_act");
  if (!activation.ok()) return activation.status();
  if (std::string_view(*activation) == "silu") return absl::OkStatus();
  return Unsupported(fields.where(), "hidden_act \"" + activation->substr(0, 80) + "\"");
}

absl::Status ReadSizes(const JsonFields& fields, ModelConfig& out) {
  ASSAY_ASSIGN_OR_RETURN(out.vocab, Dim(fields, "vocab_size", 32000));
  ASSAY_ASSIGN_OR_RETURN(out.hidden, Dim(fields, "hidden_size", 4096));
  ASSAY_ASSIGN_OR_RETURN(out.ffn, Dim(fields, "intermediate_size", 11008));
  ASSAY_ASSIGN_OR_RETURN(out.layers, Dim(fields, "num_hidden_layers", 32));
  ASSAY_ASSIGN_OR_RETURN(out.heads, Dim(fields, "num_attention_heads", 32));
  ASSAY_ASSIGN_OR_RETURN(out.kv_heads, Dim(fields, "num_key_value_heads", out.heads));
  if (!fields.Has("head_dim") && out.hidden % out.heads != 0) {
    return fields.Invalid("num_attention_heads", "must divide hidden_size when head_dim is absent");
  }
  ASSAY_ASSIGN_OR_RETURN(out.head_dim, Dim(fields, "head_dim", out.hidden / out.heads));
  ASSAY_ASSIGN_OR_RETURN(out.max_positions, Dim(fields, "max_position_embeddings", 2048));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ConfigFromHf(const Json& config, std::string_view where) {
  const JsonFields fields(config, std::string(where));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ModelConfig out;
  ASSAY_ASSIGN_OR_RETURN(out.architecture, Architecture(fields, config));
  out.family = "llama";
  if (fields.Has("quantization_config")) {
    return Unsupported(fields.where(),
                       "the weights are quantized (quantization_config), which Hugging Face "
                       "folders are not read with yet");
  }
  ASSAY_RETURN_IF_ERROR(CheckActivation(fields));
  ASSAY_RETURN_IF_ERROR(ReadSizes(fields, out));
  ASSAY_ASSIGN_OR_RETURN(const double eps, NumberOr(fields, "rms_norm_eps", 1e-6));
  out.rms_eps = static_cast<float>(eps);
  ASSAY_RETURN_IF_ERROR(ReadRope(fields, config, out));
  ASSAY_ASSIGN_OR_RETURN(out.tied, Flag(fields, "tie_word_embeddings"));
  ASSAY_ASSIGN_OR_RETURN(out.attention_bias, Flag(fields, "attention_bias"));
  ASSAY_ASSIGN_OR_RETURN(out.mlp_bias, Flag(fields, "mlp_bias"));
  ASSAY_RETURN_IF_ERROR(CheckConfig(out, fields.where()));
  return out;
}

}  // namespace assay
