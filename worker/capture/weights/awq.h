// AWQ in the "gemm" layout, 4 bits (arch-qwen-llama 8.5; AutoAWQ's WQLinear_GEMM). The stored
// matrix is the transpose of the decoded one:
//
//   X.qweight  I32 [I, O / 8]      q[i, o] in word o / 8, nibble P[o mod 8], P = 0 4 1 5 2 6 3 7
//   X.qzeros   I32 [I / group, O / 8], packed the same way
//   X.scales   F16, BF16, F32 [I / group, O]
//
//   w[o, i] = (q - z) s, rounded once to float32

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_AWQ_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_AWQ_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/capture/weights/packed_tensor.h"

namespace assay {

// Takes codes (qweight), zeros and scales of `parts`; `group` inputs share a scale, 0: all of them.
// QUANTIZATION_INVALID.
absl::StatusOr<std::unique_ptr<PackedTensor>> MakeAwq(const PackedParts& parts, uint64_t group);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_AWQ_H_
