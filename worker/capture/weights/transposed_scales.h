// Scales stored as [groups, outputs], as GPTQ and AWQ do.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_TRANSPOSED_SCALES_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_TRANSPOSED_SCALES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/capture/weights/scale_grid.h"

namespace assay {

// QUANTIZATION_INVALID unless parts.scales is F16, BF16 or F32 [groups, parts.rows].
absl::Status CheckTransposedScales(const PackedParts& parts, uint64_t groups);

// The scales of outputs [row_begin, row_begin + count) as out[count, groups]. `rows` is the width
// of a stored row.
void TransposedScales(const TensorView& scales, uint64_t rows, uint64_t row_begin, uint64_t count,
                      uint64_t groups, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_TRANSPOSED_SCALES_H_
