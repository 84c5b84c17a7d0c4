// What tells the supported families apart. Everything that can differ is a field here or a key of
// the model's own configuration; the forward pass asks for neither name nor family.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_FAMILIES_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_FAMILIES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

enum class AttentionBias {
  kAsked,   // q, k, v and o where the configuration's attention_bias says so
  kAlways,  // q, k and v, never o
};

struct ModelFamily {
  std::string_view name;      // Hugging Face's model_type, GGUF's general.architecture
  std::string_view hf_class;  // Hugging Face's architectures[0]

  // Meaning of keys that a config.json leaves out (arch-qwen-llama 2 to 4).
  int64_t vocab = 0;
  int64_t ffn = 0;
  int64_t kv_heads = 0;  // 0: as many as query heads
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t max_positions = 0;

  AttentionBias attention_bias = AttentionBias::kAsked;
  bool mlp_bias = false;          // the configuration may ask for gate, up and down biases
  bool qk_norm = false;           // q_norm and k_norm: RMSNorm of each head before RoPE
  bool sliding = false;           // layers may see a window only
  bool gguf_interleaved = false;  // llama.cpp's converter interleaves the rows of q and k heads
};

// Null when the family is not supported.
const ModelFamily* FamilyByName(std::string_view name);
const ModelFamily* FamilyByClass(std::string_view hf_class);

// "LlamaForCausalLM, ... (Hugging Face folders) and llama, ... (GGUF)", for messages.
std::string SupportedFamilies();

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_FAMILIES_H_
