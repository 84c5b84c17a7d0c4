// 4-bit floats, two to a byte, the even element in the low nibble (arch-qwen-llama 8.2, 8.3, 8.6):
//
//   nvfp4-pack-quantized  X.weight_packed U8 [O, I/2], X.weight_scale F8_E4M3 [O, I/16],
//                         X.weight_global_scale F32 [1]      e2m1 (e4m3 / global)
//   ModelOpt NVFP4        X.weight U8 [O, I/2], X.weight_scale F8_E4M3 [O, I/16],
//                         X.weight_scale_2 F32               e2m1 (e4m3 * scale_2)
//   mxfp4-pack-quantized  X.weight_packed U8 [O, I/2], X.weight_scale U8 (E8M0) [O, I/32]
//                                                            e2m1 2^(e - 127)
//   mxfp4 of gpt-oss      X_blocks U8 [..., O, I/32, 16], X_scales U8 [..., O, I/32], the same
//
// The scale of a group (the quotient or product in parentheses) is rounded to float32 once, its
// product with the element once more.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_FP4_PACKED_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_FP4_PACKED_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/capture/weights/scale_grid.h"

namespace assay {

enum class Fp4Format { kNvfp4, kModelOptNvfp4, kMxfp4, kMxfp4Blocks };

// Takes codes, scales and, for the NVFP4 formats, global_scale. Leading dimensions of gpt-oss
// tensors count as rows. QUANTIZATION_INVALID.
absl::StatusOr<std::unique_ptr<PackedTensor>> MakeFp4Packed(const PackedParts& parts,
                                                            Fp4Format format);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_FP4_PACKED_H_
