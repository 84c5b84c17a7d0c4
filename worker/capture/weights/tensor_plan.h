// The tensors that a model of a family must have: names in both spellings and shapes.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_TENSOR_PLAN_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_TENSOR_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/capture/weights/config.h"

namespace assay {

struct PlannedTensor {
  std::string hf_name;
  std::string gguf_name;
  std::vector<uint64_t> shape;  // [out, in] or [n]
  bool block_linear = false;    // weight of q k v o gate up down
  bool permuted = false;        // q or k of a family whose GGUF interleaves the rows of every head
};

// In checkpoint order: embedding, layers, final norm, head (unless tied).
std::vector<PlannedTensor> PlanTensors(const ModelConfig& config);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_TENSOR_PLAN_H_
