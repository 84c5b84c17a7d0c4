// ModelConfig from a Hugging Face config.json (arch-qwen-llama sections 1.5 and 2 to 4).

#include <string>
#include <vector>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/config.h"
#include "worker/capture/weights/config_check.h"
#include "worker/capture/weights/config_rope_hf.h"
#include "worker/capture/weights/families.h"

namespace assay {
namespace {

constexpr const char* kText = "text_config";  // the language model of a multimodal one

// The first entry of `architectures`, else "" (old files).
absl::StatusOr<std::string> FirstClass(const JsonFields& fields, const Json& config) {
  if (!fields.Has("architectures")) return std::string();
  const Json& list = config["architectures"];
  if (!list.is_array() || list.empty() || !list[0].is_string())
    return fields.Invalid("architectures", "must be a list of names");
  return list[0].get<std::string>();
}

absl::StatusOr<std::string> ModelType(const JsonFields& fields) {
  if (!fields.Has("model_type")) return std::string();
  return fields.String("model_type");
}

absl::StatusOr<int64_t> Dim(const JsonFields& fields, std::string_view key, int64_t fallback) {
  if (!fields.Has(key)) return fallback;
  return fields.Int(key, 1, kModelDimMax);
}

absl::StatusOr<bool> Flag(const JsonFields& fields, std::string_view key, bool fallback = false) {
  if (!fields.Has(key)) return fallback;
  return fields.Bool(key);
}

absl::Status CheckPass(const JsonFields& fields) {
  if (fields.Has("hidden_act")) {
    ASSAY_ASSIGN_OR_RETURN(const std::string activation, fields.String("hidden_act"));
    if (activation != "silu" && activation != "swish")
      return UnsupportedFeature(fields.where(), "hidden_act \"" + activation.substr(0, 80) + "\"");
  }
  ASSAY_ASSIGN_OR_RETURN(const bool causal, Flag(fields, "is_causal", true));
  if (!causal) return UnsupportedFeature(fields.where(), "attention is not causal (is_causal)");
  return absl::OkStatus();
}

absl::Status ReadSizes(const JsonFields& fields, const Json& config, const ModelFamily& family,
                       ModelConfig& out) {
  ASSAY_ASSIGN_OR_RETURN(out.vocab, Dim(fields, "vocab_size", family.vocab));
  ASSAY_ASSIGN_OR_RETURN(out.hidden, Dim(fields, "hidden_size", 4096));
  ASSAY_ASSIGN_OR_RETURN(out.ffn, Dim(fields, "intermediate_size", family.ffn));
  ASSAY_ASSIGN_OR_RETURN(out.layers, Dim(fields, "num_hidden_layers", 32));
  // Before anything is made for each of them.
  if (out.layers > kModelLayersMax) return fields.Invalid("num_hidden_layers", "is above 4096");
  ASSAY_ASSIGN_OR_RETURN(out.heads, Dim(fields, "num_attention_heads", 32));
  // A null means as many as query heads, whatever the family.
  const bool own = config.contains("num_key_value_heads") || family.kv_heads == 0;
  ASSAY_ASSIGN_OR_RETURN(out.kv_heads,
                         Dim(fields, "num_key_value_heads", own ? out.heads : family.kv_heads));
  const bool divided = !fields.Has("head_dim") && family.head_dim == 0;
  if (divided && out.hidden % out.heads != 0) {
    return fields.Invalid("num_attention_heads", "must divide hidden_size when head_dim is absent");
  }
  ASSAY_ASSIGN_OR_RETURN(
      out.head_dim, Dim(fields, "head_dim", divided ? out.hidden / out.heads : family.head_dim));
  ASSAY_ASSIGN_OR_RETURN(out.max_positions,
                         Dim(fields, "max_position_embeddings", family.max_positions));
  return absl::OkStatus();
}

// Per layer whether `layer_types` says sliding_attention; empty when the key is absent.
absl::StatusOr<std::vector<bool>> SlidingLayers(const JsonFields& fields, int64_t layers) {
  std::vector<bool> out;
  if (!fields.Has("layer_types")) return out;
  ASSAY_ASSIGN_OR_RETURN(const Json* types, fields.Array("layer_types"));
  if (static_cast<int64_t>(types->size()) != layers) {
    return fields.Invalid("layer_types", "has " + std::to_string(types->size()) + " entries for " +
                                             std::to_string(layers) + " layers");
  }
  for (const Json& type : *types) {
    if (!type.is_string()) return fields.Invalid("layer_types", "must be a list of names");
    const std::string name = type.get<std::string>();
    if (name != "full_attention" && name != "sliding_attention")
      return UnsupportedFeature(fields.where(), "layer type \"" + name.substr(0, 80) + "\"");
    out.push_back(name == "sliding_attention");
  }
  return out;
}

// arch-qwen-llama 1.6. `sliding_window` without use_sliding_window means nothing.
absl::Status ReadWindows(const JsonFields& fields, const Json& config, const ModelFamily& family,
                         ModelConfig& out) {
  out.windows.assign(static_cast<size_t>(out.layers), 0);
  ASSAY_ASSIGN_OR_RETURN(const bool used, Flag(fields, "use_sliding_window"));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<bool> sliding, SlidingLayers(fields, out.layers));
  if (!used) {
    for (const bool layer : sliding) {
      if (!layer) continue;
      return fields.Invalid("layer_types",
                            "asks for sliding_attention while use_sliding_window is off; they "
                            "contradict each other, leave what the model was trained with");
    }
    return absl::OkStatus();
  }
  if (!family.sliding)
    return UnsupportedFeature(fields.where(), "use_sliding_window in a " + out.family + " model");
  if (config.contains("sliding_window") && config["sliding_window"].is_null()) {
    return fields.Invalid("sliding_window",
                          "is null while use_sliding_window is on; they contradict each other");
  }
  ASSAY_ASSIGN_OR_RETURN(const int64_t window, Dim(fields, "sliding_window", 4096));
  int64_t first = 28;
  if (fields.Has("max_window_layers")) {
    ASSAY_ASSIGN_OR_RETURN(first, fields.Int("max_window_layers", 0, kModelDimMax));
  }
  for (int64_t l = 0; l < out.layers; ++l) {
    const bool slides = sliding.empty() ? l >= first : sliding[static_cast<size_t>(l)];
    if (slides) out.windows[static_cast<size_t>(l)] = window;
  }
  return absl::OkStatus();
}

absl::Status ReadTied(const JsonFields& outer, const JsonFields& fields, ModelConfig& out) {
  ASSAY_ASSIGN_OR_RETURN(out.tied, Flag(outer, "tie_word_embeddings"));
  if (!fields.Has("tie_word_embeddings")) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const bool inner, fields.Bool("tie_word_embeddings"));
  if (outer.Has("tie_word_embeddings") && inner != out.tied) {
    return fields.Invalid("tie_word_embeddings",
                          "contradicts the same key of the whole model; leave what the model was "
                          "trained with");
  }
  out.tied = inner;
  return absl::OkStatus();
}

// `config` is the text model's part of the file, `outer` the whole file; often they are the same.
absl::StatusOr<ModelConfig> ReadTextModel(const ModelFamily& family,
                                          const std::string& architecture, const JsonFields& outer,
                                          const JsonFields& fields, const Json& config) {
  ModelConfig out;
  out.architecture = architecture;
  ApplyFamily(family, out);
  ASSAY_RETURN_IF_ERROR(CheckPass(fields));
  ASSAY_RETURN_IF_ERROR(ReadSizes(fields, config, family, out));
  ASSAY_RETURN_IF_ERROR(ReadWindows(fields, config, family, out));
  if (fields.Has("rms_norm_eps")) {
    ASSAY_ASSIGN_OR_RETURN(const double eps, fields.Number("rms_norm_eps"));
    out.rms_eps = static_cast<float>(eps);
  } else {
    out.rms_eps = 1e-6f;
  }
  ASSAY_RETURN_IF_ERROR(ReadHfRope(fields, config, out));
  ASSAY_RETURN_IF_ERROR(ReadTied(outer, fields, out));
  if (family.attention_bias == AttentionBias::kAsked) {
    ASSAY_ASSIGN_OR_RETURN(out.qkv_bias, Flag(fields, "attention_bias"));
    out.o_bias = out.qkv_bias;
  }
  if (family.mlp_bias) {
    ASSAY_ASSIGN_OR_RETURN(out.mlp_bias, Flag(fields, "mlp_bias"));
  }
  ASSAY_RETURN_IF_ERROR(CheckConfig(out, fields.where()));
  return out;
}

}  // namespace

absl::StatusOr<ModelConfig> ConfigFromHf(const Json& config, std::string_view where) {
  const JsonFields outer(config, std::string(where));
  ASSAY_RETURN_IF_ERROR(outer.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string name, FirstClass(outer, config));
  ASSAY_ASSIGN_OR_RETURN(const std::string type, ModelType(outer));
  const ModelFamily* family = name.empty() ? FamilyByName(type) : FamilyByClass(name);
  if (family != nullptr)
    return ReadTextModel(*family, std::string(family->hf_class), outer, outer, config);
  std::string found = name.empty() ? type : name;
  if (outer.Has(kText)) {
    const JsonFields text(config[kText], std::string(where) + ": " + kText);
    ASSAY_RETURN_IF_ERROR(text.CheckObject());
    ASSAY_ASSIGN_OR_RETURN(const std::string inner, ModelType(text));
    family = FamilyByName(inner);
    if (family != nullptr) return ReadTextModel(*family, found, outer, text, config[kText]);
    found += " with a " + inner + " text model";
  }
  return UnknownArchitecture(where, found.empty() ? "(none)" : found);
}

}  // namespace assay
