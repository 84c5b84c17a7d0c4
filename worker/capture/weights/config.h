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

enum class RopeType { kNone, kLinear, kLlama3, kYarn };

// Formulas: arch-qwen-llama 1.5.
struct RopeScaling {
  RopeType type = RopeType::kNone;
  double factor = 1;                  // linear, llama3, yarn
  double original_max_positions = 0;  // llama3, yarn
  double low_freq_factor = 0;         // llama3
  double high_freq_factor = 0;        // llama3
  double beta_fast = 32;              // yarn: turns above which a frequency is kept
  double beta_slow = 1;               // yarn: turns below which it is divided by the factor
  bool truncate = true;               // yarn: the two borders are whole numbers
  double attention_factor = 1;        // yarn: cosines and sines are multiplied by it
  // head_dim / 2 divisors of the unscaled frequencies (GGUF rope_freqs.weight); empty: none.
  std::vector<float> divisors;
  bool operator==(const RopeScaling&) const = default;
};

// g of arch-qwen-llama 1.5: yarn's attention factor for a scaling factor.
double YarnAttentionScale(double factor, double mscale = 1);

struct ModelConfig {
  std::string family;        // name of the ModelFamily: "llama", "qwen2", "qwen3"
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
  bool tied = false;      // no lm_head.weight of its own: the embedding is the head
  bool qkv_bias = false;  // q, k and v
  bool o_bias = false;
  bool mlp_bias = false;          // gate, up and down
  bool qk_norm = false;           // RMSNorm of each q and k head before RoPE, with rms_eps
  bool gguf_interleaved = false;  // GGUF rows of q and k heads are interleaved
  std::vector<int64_t> windows;   // per layer: keys that a query sees, itself included; 0: all
  int64_t max_positions = 0;      // 0: unknown
};

// Sizes accepted from a file; beyond them FIELD_INVALID.
inline constexpr int64_t kModelDimMax = int64_t{1} << 24;
inline constexpr int64_t kModelLayersMax = 4096;

// v4 and v5 spellings; of a multimodal model the `text_config`, when its model_type is a supported
// family. Keys that the forward pass has no use for are ignored. UNKNOWN_ARCHITECTURE names what is
// supported; UNSUPPORTED_MODEL_FEATURE for a known family with a feature that is not built
// (activation, rope type); FIELD_* (also for keys that contradict each other).
absl::StatusOr<ModelConfig> ConfigFromHf(const Json& config, std::string_view where);

// From the keys under the family's name (`qwen2.*`). Biases, tying and rope_freqs are read off the
// tensor list. A window is not stored in these files, so there is none (arch-qwen-llama 9.4).
absl::StatusOr<ModelConfig> ConfigFromGguf(const GgufFile& file);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_H_
