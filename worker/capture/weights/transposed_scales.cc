#include "worker/capture/weights/transposed_scales.h"

#include <vector>

#include "worker/capture/weights/decode.h"

namespace assay {

absl::Status CheckTransposedScales(const PackedParts& parts, uint64_t groups) {
  if (parts.scales == nullptr) return QuantizationMissing(parts, "scales");
  const bool known = FormatOfDType(parts.scales->dtype).has_value();
  return CheckPart(parts, *parts.scales, known ? parts.scales->dtype : DType::kF16,
                   {groups, parts.rows});
}

void TransposedScales(const TensorView& scales, uint64_t rows, uint64_t row_begin, uint64_t count,
                      uint64_t groups, float* out) {
  std::vector<float> stored(count);
  for (uint64_t g = 0; g < groups; ++g) {
    const uint64_t first = g * rows + row_begin;
    DecodeWeights(*FormatOfDType(scales.dtype),
                  scales.bytes.data() + first * DTypeBytes(scales.dtype), count, stored.data());
    for (uint64_t r = 0; r < count; ++r) out[r * groups + g] = stored[r];
  }
}

}  // namespace assay
