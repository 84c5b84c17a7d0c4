// One stored byte for each weight, scaled (arch-qwen-llama 8.1, 8.2, 8.3):
//
//   compressed-tensors int-quantized    X.weight I8, X.weight_scale, opt. X.weight_zero_point I8
//                                       (q - zp) s
//   compressed-tensors float-quantized  X.weight F8_E4M3, X.weight_scale          e4m3 s
//   "fp8" of DeepSeek and Qwen          X.weight F8_E4M3, X.weight_scale_inv of 128 x 128 blocks
//                                       e4m3 s (a multiplier despite its name)
//   ModelOpt FP8                        X.weight F8_E4M3, X.weight_scale F32      e4m3 s
//   mxfp8-quantized                     X.weight F8_E4M3, X.weight_scale U8 (E8M0) [O, I / 32]
//
// X.weight is [O, I]; scales are one value, [O, 1], [O, I / group] or one for each block, the last
// of which may be partial; one rounding to float32 for each weight.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_PLAIN_QUANTIZED_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_PLAIN_QUANTIZED_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/capture/weights/scale_grid.h"

namespace assay {

// Takes codes (I8 or F8_E4M3), scales and, for I8, zeros (null: none). `name` is the format's, as
// in "int-quantized". QUANTIZATION_INVALID.
absl::StatusOr<std::unique_ptr<PackedTensor>> MakePlainQuantized(const PackedParts& parts,
                                                                 ScaleBlock block,
                                                                 const std::string& name);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_PLAIN_QUANTIZED_H_
