// Hyper-parameters of a decoder model, from a Hugging Face config.json or GGUF metadata.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/gguf.h"

namespace assay {

enum class RopeType { kNone, kLinear, kLlama3 };

// Formulas: arch-qwen-llama 1.5.
struct RopeScaling {
  RopeType type = RopeType::kNone;
  double factor = 1;                  // linear, llama3
  double low_freq_factor = 0;         // llama3
  double high_freq_factor = 0;        // llama3
  double original_max_positions = 0;  // llama3
  // head_dim / 2 divisors of the unscaled frequencies (GGUF rope_freqs.weight); empty: none.
  std::vector<float> divisors;
  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string family;        // "llama"
  std::string architecture;  // as the file spells it: "LlamaForCausalLM", "llama"
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;  // even
  int64_t ffn = 0;
  float rms_eps = 0;
  double rope_theta = 0;
  RopeScaling rope;
  bool tied = false;            // no lm_head.weight of its own: the embedding is the head
  bool attention_bias = false;  // q, k, v and o
  bool mlp_bias = false;        // gate, up and down
  int64_t max_positions = 0;    // 0: unknown
};

// Sizes accepted from a file; beyond them FIELD_INVALID.
inline constexpr int64_t kModelDimMax = int64_t{1} << 24;
inline constexpr int64_t kModelLayersMax = 4096;

// The families this build can capture, for messages.
inline constexpr std::string_view kSupportedFamilies =
    "LlamaForCausalLM (Hugging Face folders) and llama (GGUF)";

// v4 and v5 spellings. UNKNOWN_ARCHITECTURE names what is supported; UNSUPPORTED_MODEL_FEATURE for
// a known family with a feature that is not built (activation, rope type, quantization_config);
// FIELD_*.
absl::StatusOr<ModelConfig> ConfigFromHf(const Json& config, std::string_view where);

// From `llama.*` keys. Biases, tying and rope_freqs are read off the tensor list.
absl::StatusOr<ModelConfig> ConfigFromGguf(const GgufFile& file);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_H_
