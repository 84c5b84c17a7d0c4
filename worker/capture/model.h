// One rank's part of a checkpoint, decoded to float32 and held as libtorch tensors.
// Includes libtorch: only model.cc and decoder.cc may include this header.

#ifndef ASSAY_WORKER_CAPTURE_MODEL_H_
#define ASSAY_WORKER_CAPTURE_MODEL_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/capture/pieces.h"
#include "worker/capture/weights/checkpoint.h"

namespace assay::capture {

// Matrices are [out, in], dense. Undefined tensors: the model has no such bias or norm.
struct LayerWeights {
  at::Tensor input_norm, post_norm;  // [hidden], on every rank
  at::Tensor qkv, qkv_bias;          // own query heads, then needed key heads, then value heads
  at::Tensor q_norm, k_norm;         // [head_dim], on every rank
  std::vector<at::Tensor> o;         // per own attention piece [hidden, heads_per_piece * dim]
  at::Tensor o_bias;                 // [hidden]: added once to the sum of pieces
  std::vector<at::Tensor> gate_up;   // per own FFN piece: its gate rows, then its up rows
  at::Tensor gate_bias, up_bias;     // own columns
  std::vector<at::Tensor> down;      // per own FFN piece [hidden, piece width]
  at::Tensor down_bias;              // [hidden]
};

struct ModelWeights {
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;
  uint64_t bytes = 0;  // of all tensors above
};

// Reads only the rows of column-parallel matrices that `share` names; of row-parallel ones the rows
// are decoded in small blocks and only the share's columns kept. Uses the calling thread's OpenMP
// threads. Errors: the checkpoint's.
absl::StatusOr<ModelWeights> LoadWeights(const Checkpoint& checkpoint, const RankShare& share);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_MODEL_H_
