#include "worker/capture/weights/families.h"

namespace assay {
namespace {

constexpr ModelFamily kFamilies[] = {
    {.name = "llama",
     .hf_class = "LlamaForCausalLM",
     .vocab = 32000,
     .ffn = 11008,
     .max_positions = 2048,
     .mlp_bias = true,
     .gguf_interleaved = true},
    {.name = "qwen2",
     .hf_class = "Qwen2ForCausalLM",
     .vocab = 151936,
     .ffn = 22016,
     .kv_heads = 32,
     .max_positions = 32768,
     .attention_bias = AttentionBias::kAlways,
     .sliding = true},
    {.name = "qwen3",
     .hf_class = "Qwen3ForCausalLM",
     .vocab = 151936,
     .ffn = 22016,
     .kv_heads = 32,
     .head_dim = 128,
     .max_positions = 32768,
     .qk_norm = true,
     .sliding = true},
};

}  // namespace

const ModelFamily* FamilyByName(std::string_view name) {
  for (const ModelFamily& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

const ModelFamily* FamilyByClass(std::string_view hf_class) {
  for (const ModelFamily& family : kFamilies) {
    if (family.hf_class == hf_class) return &family;
  }
  return nullptr;
}

std::string SupportedFamilies() {
  std::string classes, names;
  for (const ModelFamily& family : kFamilies) {
    const char* const separator = classes.empty() ? "" : ", ";
    classes.append(separator).append(family.hf_class);
    names.append(separator).append(family.name);
  }
  return classes + " (Hugging Face folders) and " + names + " (GGUF)";
}

}  // namespace assay
