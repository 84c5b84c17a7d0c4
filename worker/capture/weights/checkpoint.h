// A checkpoint on disk as float32 rows under Hugging Face names, whatever its storage.
//
// Names are those of arch-qwen-llama section 2: "model.embed_tokens.weight",
// "model.layers.3.self_attn.q_proj.weight" (.bias), "...mlp.down_proj.weight",
// "model.layers.3.input_layernorm.weight", "...post_attention_layernorm.weight",
// "model.norm.weight", and "lm_head.weight" unless tied. Shapes are [out, in] or [n].

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_CHECKPOINT_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/capture/weights/config.h"
#include "worker/capture/weights/facts.h"
#include "worker/capture/weights/stored_tensor.h"

namespace assay {

class Checkpoint {
 public:
  // Opens a GGUF file or a Hugging Face folder (one safetensors file, or shards with
  // model.safetensors.index.json) and checks that every tensor of the family is there with the
  // right shape and a decodable format. `transform` is "" or "rtn:..." (model_spec.h). Errors:
  // MODEL_MISSING, MODEL_UNRECOGNISED, UNKNOWN_ARCHITECTURE, UNSUPPORTED_MODEL_FEATURE,
  // UNSUPPORTED_TENSOR_TYPE, TENSOR_MISSING, SHAPE_MISMATCH, QUANTIZATION_INVALID,
  // GPTQ_ZERO_AMBIGUOUS, TRANSFORM_INVALID, and the readers'.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                                          std::string_view transform);
  ~Checkpoint();

  const ModelConfig& config() const { return config_; }
  bool Has(std::string_view hf_name) const;
  absl::StatusOr<std::vector<uint64_t>> Shape(std::string_view hf_name) const;  // TENSOR_MISSING
  std::vector<std::string> Names() const;                                       // sorted

  // Writes rows [row_begin, row_end) as float32, row major, to `out` (room for (row_end -
  // row_begin) * cols values; a vector is n rows of one column). Values are the exact decode, one
  // rounding where the format's formula has one; GGUF q and k rows are in HF order; the transform
  // is applied to block linears (q k v o gate up down weights). Any split of a tensor into ranges
  // gives the same bits. Thread-safe. ROW_RANGE_INVALID, TENSOR_MISSING.
  absl::Status ReadRows(std::string_view hf_name, uint64_t row_begin, uint64_t row_end,
                        float* out) const;

  // "Q4_1", "BF16", "GPTQ int4, groups of 128", ...; "" for an unknown name. The file's format,
  // whatever the transform.
  std::string_view StorageFormat(std::string_view hf_name) const;
  // Bytes the tensor takes in the file, its scales, zero points and indices included; 0 for an
  // unknown name.
  uint64_t StorageBytes(std::string_view hf_name) const;

  ModelFacts facts() const;

 private:
  Checkpoint();
  friend class CheckpointBuilder;
  absl::StatusOr<const StoredTensor*> Get(std::string_view hf_name) const;

  std::string path_;
  std::string transform_;
  int transform_bits_ = 0;  // 0: none
  uint64_t transform_group_ = 0;
  ModelConfig config_;
  uint64_t file_bytes_ = 0;
  std::vector<std::shared_ptr<const void>> files_;  // keep the mappings alive
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_CHECKPOINT_H_
