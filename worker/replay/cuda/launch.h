// The CUDA kernels behind ordinary functions, for host code.
//
// Tiles are row-major fp32, `stride` floats from row to row. Launches are asynchronous on the
// stream.

#ifndef ASSAY_WORKER_REPLAY_CUDA_LAUNCH_H_
#define ASSAY_WORKER_REPLAY_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "worker/replay/cuda/leaf_pass.h"

namespace assay::cuda {

// All pointers are to device memory. `leaf_begin` has leaves + 1 columns counted from the rank's
// first; rules' bias points at the rank's first column.
struct PassShape {
  const int64_t* leaf_begin;
  int64_t own_begin;  // the rank's first column in the vocabulary
  int leaves, rows;
  uint64_t stride;
};

// out [row][leaf]; observed [row]: columns of the vocabulary or -1.
cudaError_t LaunchSide(const PassShape& shape, const float* tile, const LogitRule& rule,
                       const int32_t* observed, SideLeaf* out, cudaStream_t stream);

// out [row][leaf]; values [row], threshold columns counted in the vocabulary.
cudaError_t LaunchPair(const PassShape& shape, const float* ref, const float* cand,
                       const LogitRule& ref_rule, const LogitRule& cand_rule, const PairRow* values,
                       PairLeaf* out, cudaStream_t stream);

// Logits after the softcap: out[i] = tile[rows[i]][columns[i]], columns counted from the rank's
// first.
struct PlaceOnDevice {
  const float* logit;  // in device memory
  const float* bias;   // of that column, or null
  double scale;
};
cudaError_t LaunchRead(const PlaceOnDevice* places, int count, double softcap, double* out,
                       cudaStream_t stream);

// Whether this build holds kernels that the current device runs.
bool KernelsRunHere();

}  // namespace assay::cuda

#endif  // ASSAY_WORKER_REPLAY_CUDA_LAUNCH_H_
