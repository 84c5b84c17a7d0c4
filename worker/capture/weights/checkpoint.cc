#include "worker/capture/weights/checkpoint.h"

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_spec.h"
#include "worker/capture/weights/transform.h"

namespace assay {

Checkpoint::Checkpoint() = default;
Checkpoint::~Checkpoint() = default;

bool Checkpoint::Has(std::string_view hf_name) const {
  return tensors_.find(hf_name) != tensors_.end();
}

absl::StatusOr<const StoredTensor*> Checkpoint::Get(std::string_view hf_name) const {
  const auto it = tensors_.find(hf_name);
  if (it == tensors_.end()) {
    return NotFoundError("TENSOR_MISSING",
                         path_ + ": there is no tensor \"" + std::string(hf_name) + "\"");
  }
  return &it->second;
}

absl::StatusOr<std::vector<uint64_t>> Checkpoint::Shape(std::string_view hf_name) const {
  ASSAY_ASSIGN_OR_RETURN(const StoredTensor* tensor, Get(hf_name));
  return tensor->shape;
}

std::vector<std::string> Checkpoint::Names() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

absl::Status Checkpoint::ReadRows(std::string_view hf_name, uint64_t row_begin, uint64_t row_end,
                                  float* out) const {
  ASSAY_ASSIGN_OR_RETURN(const StoredTensor* tensor, Get(hf_name));
  if (row_begin > row_end || row_end > tensor->rows()) {
    return InternalError("ROW_RANGE_INVALID",
                         std::string(hf_name) + ": rows " + std::to_string(row_begin) + " to " +
                             std::to_string(row_end) + " of " + std::to_string(tensor->rows()));
  }
  const uint64_t cols = tensor->cols();
  if (tensor->packed != nullptr) {
    tensor->packed->Decode(row_begin, row_end, out);
  } else if (tensor->permuted_head_rows == 0) {  // stored rows follow each other
    DecodeWeights(tensor->format, tensor->bytes.data() + row_begin * tensor->row_bytes,
                  (row_end - row_begin) * cols, out);
  } else {
    for (uint64_t row = row_begin; row < row_end; ++row) {
      DecodeWeights(tensor->format,
                    tensor->bytes.data() + StoredRow(*tensor, row) * tensor->row_bytes, cols,
                    out + (row - row_begin) * cols);
    }
  }
  if (tensor->scale != 1) {
    for (uint64_t i = 0; i < (row_end - row_begin) * cols; ++i) out[i] *= tensor->scale;
  }
  if (transform_bits_ == 0 || !tensor->block_linear) return absl::OkStatus();
  const uint64_t group = transform_group_ == 0 ? cols : transform_group_;
  for (uint64_t row = row_begin; row < row_end; ++row)
    RoundRowToNearest(out + (row - row_begin) * cols, cols, group, transform_bits_);
  return absl::OkStatus();
}

std::string_view Checkpoint::StorageFormat(std::string_view hf_name) const {
  const auto it = tensors_.find(hf_name);
  return it == tensors_.end() ? std::string_view() : it->second.format_name();
}

uint64_t Checkpoint::StorageBytes(std::string_view hf_name) const {
  const auto it = tensors_.find(hf_name);
  return it == tensors_.end() ? 0 : it->second.stored_bytes();
}

ModelFacts Checkpoint::facts() const {
  ModelFacts facts;
  facts.architecture = config_.architecture;
  facts.family = config_.family;
  facts.layers = config_.layers;
  facts.hidden = config_.hidden;
  facts.vocab = config_.vocab;
  facts.file_bytes = file_bytes_;
  facts.tied = config_.tied;
  facts.transform = transform_;
  facts.what_if = transform_bits_ != 0;
  for (const auto& [name, tensor] : tensors_) {
    const uint64_t params = tensor.rows() * tensor.cols();
    uint64_t bits = tensor.stored_bytes() * 8;
    if (facts.what_if && tensor.block_linear) {
      const uint64_t group = transform_group_ == 0 ? tensor.cols() : transform_group_;
      const uint64_t scales = params / group;
      bits = params * static_cast<uint64_t>(transform_bits_) + scales * 32;
    }
    PartSize& part = name == "model.embed_tokens.weight" ? facts.embedding
                     : name == "lm_head.weight"          ? facts.head
                                                         : facts.body;
    part.params += params;
    part.bits += bits;
  }
  if (facts.tied) facts.head = facts.embedding;
  return facts;
}

Json ModelFacts::ToJson() const {
  const auto part = [](const PartSize& size) {
    Json out = Json::object();
    out["params"] = size.params;
    out["bits"] = size.bits;
    out["bits_per_weight"] = size.bits_per_weight();
    return out;
  };
  Json out = Json::object();
  out["architecture"] = architecture;
  out["family"] = family;
  out["layers"] = layers;
  out["hidden"] = hidden;
  out["vocab"] = vocab;
  out["file_bytes"] = file_bytes;
  out["body"] = part(body);
  out["head"] = part(head);
  out["embedding"] = part(embedding);
  out["tied"] = tied;
  out["transform"] = transform;
  out["what_if"] = what_if;
  return out;
}

}  // namespace assay
