// ModelConfig from GGUF metadata (arch-qwen-llama 9.4 and 9.5).

#include <cstring>
#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/config.h"
#include "worker/capture/weights/config_check.h"
#include "worker/capture/weights/families.h"

namespace assay {
namespace {

absl::Status Unsupported(const GgufFile& file, std::string_view what) {
  return UnsupportedFeature(file.path(), what);
}

absl::Status Contradiction(const GgufFile& file, const std::string& why) {
  return InvalidError("FIELD_INVALID", file.path() + ": " + why + "; convert the model again");
}

absl::StatusOr<int64_t> IntOr(const GgufFile& file, const std::string& key, int64_t fallback) {
  if (!file.Has(key)) return fallback;
  return file.Int(key, 0, kModelDimMax);
}

absl::Status CheckAttention(const GgufFile& file, const std::string& arch) {
  const auto causal = file.kv().find(arch + "attention.causal");
  if (causal != file.kv().end() && causal->second.type == GgufType::kBool &&
      !std::get<bool>(causal->second.scalar)) {
    return Unsupported(file, "attention is not causal");
  }
  // llama.cpp's converter drops the window of these families, so a file that has one was made by
  // something else.
  ASSAY_ASSIGN_OR_RETURN(const int64_t window, IntOr(file, arch + "attention.sliding_window", 0));
  if (window != 0) return Unsupported(file, arch + "attention.sliding_window");
  return absl::OkStatus();
}

// The embedding decides; what the metadata says about its rows must agree. Fewer tokens than rows
// are padding.
absl::Status CheckVocabulary(const GgufFile& file, const std::string& arch, int64_t vocab) {
  const std::string rows = "token_embd.weight has " + std::to_string(vocab) + " rows and ";
  if (file.Has(arch + "vocab_size")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t stated, file.Int(arch + "vocab_size", 0, INT64_MAX));
    if (stated != vocab)
      return Contradiction(file, rows + arch + "vocab_size is " + std::to_string(stated));
  }
  const auto tokens = file.kv().find("tokenizer.ggml.tokens");
  if (tokens != file.kv().end() && tokens->second.count > static_cast<uint64_t>(vocab)) {
    return Contradiction(file, rows + "tokenizer.ggml.tokens has " +
                                   std::to_string(tokens->second.count) + " tokens");
  }
  return absl::OkStatus();
}

absl::Status ReadSizes(const GgufFile& file, const std::string& arch, ModelConfig& out) {
  ASSAY_ASSIGN_OR_RETURN(out.layers, file.Int(arch + "block_count", 1, kModelLayersMax));
  ASSAY_ASSIGN_OR_RETURN(out.hidden, file.Int(arch + "embedding_length", 1, kModelDimMax));
  ASSAY_ASSIGN_OR_RETURN(out.ffn, file.Int(arch + "feed_forward_length", 1, kModelDimMax));
  ASSAY_ASSIGN_OR_RETURN(out.heads, file.Int(arch + "attention.head_count", 1, kModelDimMax));
  out.kv_heads = out.heads;
  if (file.Has(arch + "attention.head_count_kv")) {
    ASSAY_ASSIGN_OR_RETURN(out.kv_heads,
                           file.Int(arch + "attention.head_count_kv", 1, kModelDimMax));
  }
  if (!file.Has(arch + "attention.key_length") && out.hidden % out.heads != 0) {
    return InvalidError("FIELD_INVALID", file.path() + ": metadata key \"" + arch +
                                             "attention.head_count\" does not divide "
                                             "embedding_length");
  }
  ASSAY_ASSIGN_OR_RETURN(out.head_dim,
                         IntOr(file, arch + "attention.key_length", out.hidden / out.heads));
  if (out.head_dim < 1) return Unsupported(file, "attention.key_length is 0");
  ASSAY_ASSIGN_OR_RETURN(const int64_t value_dim,
                         IntOr(file, arch + "attention.value_length", out.head_dim));
  if (value_dim != out.head_dim) return Unsupported(file, "key and value lengths differ");
  ASSAY_ASSIGN_OR_RETURN(const int64_t rotary,
                         IntOr(file, arch + "rope.dimension_count", out.head_dim));
  if (rotary != out.head_dim) return Unsupported(file, "RoPE covers only a part of each head");
  ASSAY_ASSIGN_OR_RETURN(const int64_t experts, IntOr(file, arch + "expert_count", 0));
  if (experts != 0) return Unsupported(file, "mixture of experts");
  ASSAY_RETURN_IF_ERROR(CheckAttention(file, arch));
  ASSAY_ASSIGN_OR_RETURN(out.max_positions, IntOr(file, arch + "context_length", 0));

  const GgufTensor* embedding = file.Find("token_embd.weight");
  if (embedding == nullptr || embedding->ne.size() != 2) {
    return NotFoundError("TENSOR_MISSING",
                         file.path() + ": there is no two-dimensional token_embd.weight");
  }
  if (embedding->ne[1] > static_cast<uint64_t>(kModelDimMax))
    return Unsupported(file, "the vocabulary is larger than the limit");
  out.vocab = static_cast<int64_t>(embedding->ne[1]);
  return CheckVocabulary(file, arch, out.vocab);
}

absl::Status ReadDivisors(const GgufFile& file, ModelConfig& out) {
  const GgufTensor* freqs = file.Find("rope_freqs.weight");
  if (freqs == nullptr) return absl::OkStatus();
  const uint64_t half = static_cast<uint64_t>(out.head_dim) / 2;
  if (freqs->type != kGgmlF32 || freqs->ne != std::vector<uint64_t>{half}) {
    return InvalidError("SHAPE_MISMATCH", file.path() + ": rope_freqs.weight must be F32 [" +
                                              std::to_string(half) + "]");
  }
  out.rope.divisors.resize(half);
  std::memcpy(out.rope.divisors.data(), freqs->bytes.data(), half * sizeof(float));
  return absl::OkStatus();
}

// llama.cpp's yarn is transformers' with the attention factor of the scaling factor alone. The keys
// that would change it are refused unless they change nothing: its converter writes there what its
// engine does not read so.
absl::Status ReadYarn(const GgufFile& file, const std::string& arch, ModelConfig& out) {
  const std::string scaling = arch + "rope.scaling.";
  const std::pair<const char*, double> neutral[] = {{"attn_factor", 1},
                                                    {"yarn_attn_factor", 1},
                                                    {"yarn_ext_factor", 1},
                                                    {"yarn_log_multiplier", 0}};
  for (const auto& [key, value] : neutral) {
    if (!file.Has(scaling + key)) continue;
    ASSAY_ASSIGN_OR_RETURN(const double stated, file.Number(scaling + key));
    if (stated != value) return Unsupported(file, "yarn with " + scaling + key);
  }
  RopeScaling& rope = out.rope;
  rope.type = RopeType::kYarn;
  ASSAY_ASSIGN_OR_RETURN(rope.factor, file.Number(scaling + "factor"));
  ASSAY_ASSIGN_OR_RETURN(rope.original_max_positions,
                         file.Number(scaling + "original_context_length"));
  if (file.Has(scaling + "yarn_beta_fast")) {
    ASSAY_ASSIGN_OR_RETURN(rope.beta_fast, file.Number(scaling + "yarn_beta_fast"));
  }
  if (file.Has(scaling + "yarn_beta_slow")) {
    ASSAY_ASSIGN_OR_RETURN(rope.beta_slow, file.Number(scaling + "yarn_beta_slow"));
  }
  rope.attention_factor = YarnAttentionScale(rope.factor);
  return absl::OkStatus();
}

absl::Status ReadScaling(const GgufFile& file, const std::string& arch, ModelConfig& out) {
  std::string type = "none";
  if (file.Has(arch + "rope.scaling.type")) {
    ASSAY_ASSIGN_OR_RETURN(type, file.String(arch + "rope.scaling.type"));
  } else if (file.Has(arch + "rope.scale_linear")) {
    type = "linear";  // the key of older files
  }
  if (type == "none") return absl::OkStatus();
  if (type == "yarn") return ReadYarn(file, arch, out);
  if (type != "linear") {
    return Unsupported(file, "rope type \"" + type.substr(0, 80) +
                                 "\" is not supported (none, linear and yarn are)");
  }
  const bool current = file.Has(arch + "rope.scaling.factor");
  ASSAY_ASSIGN_OR_RETURN(
      out.rope.factor, file.Number(arch + (current ? "rope.scaling.factor" : "rope.scale_linear")));
  out.rope.type = RopeType::kLinear;
  return absl::OkStatus();
}

absl::Status ReadRope(const GgufFile& file, const std::string& arch, ModelConfig& out) {
  out.rope_theta = 10000;
  if (file.Has(arch + "rope.freq_base")) {
    ASSAY_ASSIGN_OR_RETURN(out.rope_theta, file.Number(arch + "rope.freq_base"));
  }
  ASSAY_RETURN_IF_ERROR(ReadScaling(file, arch, out));
  return ReadDivisors(file, out);
}

}  // namespace

absl::StatusOr<ModelConfig> ConfigFromGguf(const GgufFile& file) {
  ASSAY_ASSIGN_OR_RETURN(const std::string architecture, file.String("general.architecture"));
  const ModelFamily* const family = FamilyByName(architecture);
  if (family == nullptr) return UnknownArchitecture(file.path(), architecture);
  if (file.Has("split.count")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t parts, file.Int("split.count", 0, 1 << 20));
    if (parts > 1) {
      return Unsupported(file, "the model is split into " + std::to_string(parts) +
                                   " GGUF files, merge them with gguf-split --merge");
    }
  }
  const std::string arch = architecture + ".";
  ModelConfig out;
  ApplyFamily(*family, out);
  out.architecture = architecture;
  ASSAY_RETURN_IF_ERROR(ReadSizes(file, arch, out));
  ASSAY_ASSIGN_OR_RETURN(const double eps, file.Number(arch + "attention.layer_norm_rms_epsilon"));
  out.rms_eps = static_cast<float>(eps);
  ASSAY_RETURN_IF_ERROR(ReadRope(file, arch, out));
  out.tied = file.Find("output.weight") == nullptr;
  if (family->attention_bias == AttentionBias::kAsked) {
    out.qkv_bias = file.Find("blk.0.attn_q.bias") != nullptr;
    out.o_bias = file.Find("blk.0.attn_output.bias") != nullptr;
  }
  out.mlp_bias = family->mlp_bias && file.Find("blk.0.ffn_gate.bias") != nullptr;
  out.windows.assign(static_cast<size_t>(out.layers), 0);
  ASSAY_RETURN_IF_ERROR(CheckConfig(out, file.path()));
  return out;
}

}  // namespace assay
