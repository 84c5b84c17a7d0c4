#include "worker/capture/weights/tensor_plan.h"

namespace assay {
namespace {

struct Linear {
  const char* hf;
  const char* gguf;
  uint64_t out;
  uint64_t in;
  bool bias;
  bool permuted;
};

void PlanLayer(const ModelConfig& config, int64_t layer, std::vector<PlannedTensor>& plan) {
  const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
  const uint64_t hidden = size(config.hidden), ffn = size(config.ffn);
  const uint64_t q = size(config.heads * config.head_dim);
  const uint64_t kv = size(config.kv_heads * config.head_dim);
  const bool qkv = config.qkv_bias, mlp = config.mlp_bias;
  const bool interleaved = config.gguf_interleaved;
  const Linear linears[] = {
      {"self_attn.q_proj", "attn_q", q, hidden, qkv, interleaved},
      {"self_attn.k_proj", "attn_k", kv, hidden, qkv, interleaved},
      {"self_attn.v_proj", "attn_v", kv, hidden, qkv, false},
      {"self_attn.o_proj", "attn_output", hidden, q, config.o_bias, false},
      {"mlp.gate_proj", "ffn_gate", ffn, hidden, mlp, false},
      {"mlp.up_proj", "ffn_up", ffn, hidden, mlp, false},
      {"mlp.down_proj", "ffn_down", hidden, ffn, mlp, false},
  };
  const std::string hf = "model.layers." + std::to_string(layer) + ".";
  const std::string gguf = "blk." + std::to_string(layer) + ".";
  plan.push_back(
      {hf + "input_layernorm.weight", gguf + "attn_norm.weight", {hidden}, false, false});
  plan.push_back(
      {hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", {hidden}, false, false});
  if (config.qk_norm) {
    const uint64_t dim = size(config.head_dim);
    plan.push_back(
        {hf + "self_attn.q_norm.weight", gguf + "attn_q_norm.weight", {dim}, false, false});
    plan.push_back(
        {hf + "self_attn.k_norm.weight", gguf + "attn_k_norm.weight", {dim}, false, false});
  }
  for (const Linear& linear : linears) {
    const std::string hf_name = hf + linear.hf, gguf_name = gguf + linear.gguf;
    plan.push_back({hf_name + ".weight",
                    gguf_name + ".weight",
                    {linear.out, linear.in},
                    true,
                    linear.permuted});
    if (linear.bias) {
      plan.push_back(
          {hf_name + ".bias", gguf_name + ".bias", {linear.out}, false, linear.permuted});
    }
  }
}

}  // namespace

std::vector<PlannedTensor> PlanTensors(const ModelConfig& config) {
  const uint64_t vocab = static_cast<uint64_t>(config.vocab);
  const uint64_t hidden = static_cast<uint64_t>(config.hidden);
  std::vector<PlannedTensor> plan;
  plan.push_back({"model.embed_tokens.weight", "token_embd.weight", {vocab, hidden}, false, false});
  for (int64_t layer = 0; layer < config.layers; ++layer) PlanLayer(config, layer, plan);
  plan.push_back({"model.norm.weight", "output_norm.weight", {hidden}, false, false});
  if (!config.tied)
    plan.push_back({"lm_head.weight", "output.weight", {vocab, hidden}, false, false});
  return plan;
}

}  // namespace assay
