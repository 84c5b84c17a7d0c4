// compressed-tensors "pack-quantized": integers of 2 to 8 bits (arch-qwen-llama 8.2;
// compressed_tensors/compressors, pack_to_int32).
//
//   X.weight_packed      I32 [O, ceil(I B / 32)]   row o: a dense bit stream, u of element i
//   X.weight_scale       BF16, F16 or F32: [O, I / group], [O, 1] or one value
//   X.weight_shape       I64 [2] = [O, I]
//   X.weight_zero_point  I32 [ceil(O B / 32), I / group]: when asymmetric; column c is a bit stream
//                        along the outputs
//   X.weight_g_idx       I32 [I]: with activation order, the group of each input
//
//   w[o, i] = (u - zp[o, g]) s[o, g], zp = 2^(B-1) when symmetric, rounded once to float32
//
// (The stored q and zp are both biased by 2^(B-1), which cancels.) Releases before dense packing
// put 32 / B whole values into a word; for B = 3, 5, 6, 7 such a file has other shapes and is
// refused.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_PACK_QUANTIZED_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_PACK_QUANTIZED_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/capture/weights/scale_grid.h"

namespace assay {

struct IntegerScheme {
  int bits = 4;  // 2 to 8
  bool symmetric = true;
  ScaleBlock block;  // who shares a scale
};

// Takes codes, scales, zeros (asymmetric only) and group_index of `parts`. QUANTIZATION_INVALID.
absl::StatusOr<std::unique_ptr<PackedTensor>> MakePackQuantized(const PackedParts& parts,
                                                                const IntegerScheme& scheme);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_PACK_QUANTIZED_H_
