// The leaf passes executed on the host, thread by thread: the bits that the GPU's kernels give.

#ifndef ASSAY_WORKER_REPLAY_CUDA_HOST_PASS_H_
#define ASSAY_WORKER_REPLAY_CUDA_HOST_PASS_H_

#include "worker/replay/cuda/leaf_pass.h"

namespace assay::cuda {

// `observed` counts within the leaf; outside it: not in this leaf. columns <= kLeafMax.
SideLeaf HostSide(const float* leaf, int columns, const LogitRule& rule, int64_t observed);

PairLeaf HostPair(const float* ref, const float* cand, int columns, const LogitRule& ref_rule,
                  const LogitRule& cand_rule, const PairRow& row);

}  // namespace assay::cuda

#endif  // ASSAY_WORKER_REPLAY_CUDA_HOST_PASS_H_
