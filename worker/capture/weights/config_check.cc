#include "worker/capture/weights/config_check.h"

#include <cmath>

#include "storage/base/status.h"

namespace assay {

absl::Status UnknownArchitecture(std::string_view where, std::string_view found) {
  return InvalidError("UNKNOWN_ARCHITECTURE",
                      std::string(where) + ": architecture \"" + std::string(found.substr(0, 80)) +
                          "\" is not supported; supported are " + SupportedFamilies() +
                          ". Capture it with your own engine and score the capture's folder");
}

absl::Status UnsupportedFeature(std::string_view where, std::string_view what) {
  return InvalidError("UNSUPPORTED_MODEL_FEATURE",
                      std::string(where) + ": " + std::string(what) +
                          "; use a checkpoint without it, or capture it with your own engine and "
                          "score the capture's folder");
}

void ApplyFamily(const ModelFamily& family, ModelConfig& config) {
  config.family = family.name;
  config.qkv_bias = family.attention_bias == AttentionBias::kAlways;
  config.qk_norm = family.qk_norm;
  config.gguf_interleaved = family.gguf_interleaved;
}

double YarnAttentionScale(double factor, double mscale) {
  return factor > 1 ? 0.1 * mscale * std::log(factor) + 1 : 1;
}

absl::Status CheckConfig(const ModelConfig& config, std::string_view name) {
  const std::string where(name);
  const auto bad = [&](const std::string& why) {
    return InvalidError("FIELD_INVALID", where + ": " + why);
  };
  if (config.layers > kModelLayersMax) return bad("more than 4096 layers");
  if (config.heads % config.kv_heads != 0) return bad("KV heads do not divide the query heads");
  if (config.head_dim % 2 != 0) return bad("the head dimension is odd");
  // Keeps heads * head_dim far from overflow.
  if (config.head_dim > kModelDimMax / config.heads) return bad("the attention width is too large");
  const bool eps_sound = std::isfinite(config.rms_eps) && config.rms_eps > 0;
  if (!eps_sound) return bad("the RMS epsilon must be a positive number");
  if (!std::isfinite(config.rope_theta) || config.rope_theta <= 0)
    return bad("the RoPE base must be a positive number");
  if (config.rope.type != RopeType::kNone && config.rope.factor <= 0)
    return bad("the RoPE factor must be positive");
  if (config.rope.type == RopeType::kLlama3 &&
      (config.rope.low_freq_factor <= 0 || config.rope.original_max_positions <= 0 ||
       config.rope.high_freq_factor <= config.rope.low_freq_factor)) {
    return bad("llama3 RoPE factors must be positive and ordered");
  }
  if (config.rope.type == RopeType::kYarn) {
    const RopeScaling& yarn = config.rope;
    if (yarn.original_max_positions <= 0) return bad("yarn's original length must be positive");
    if (yarn.beta_slow <= 0 || yarn.beta_fast < yarn.beta_slow)
      return bad("yarn's beta_fast and beta_slow must be positive and ordered");
    if (config.rope_theta <= 1) return bad("yarn needs a RoPE base above 1");
    if (!std::isfinite(yarn.attention_factor) || yarn.attention_factor <= 0)
      return bad("yarn's attention factor must be a positive number");
  }
  for (float divisor : config.rope.divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) return bad("a RoPE divisor is not positive");
  }
  return absl::OkStatus();
}

}  // namespace assay
