// Weight transforms: what-if quantizations applied to decoded rows.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_TRANSFORM_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_TRANSFORM_H_

#include <cstdint>

namespace assay {

// Symmetric round-to-nearest of one row of `cols` values, in place, in groups of `group`
// consecutive values (group divides cols). Float32, one rounding per operation, as the SmolLM2
// fixtures define it: s = max|w| / (2^(bits-1) - 1); q = clamp(rint(w / s)) with rint half to even;
// value = q * s; s = 0 gives 0. A NaN stays a NaN.
void RoundRowToNearest(float* row, uint64_t cols, uint64_t group, int bits);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_TRANSFORM_H_
