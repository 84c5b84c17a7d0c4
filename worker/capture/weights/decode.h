// Exact decoding of stored weights to float32 (specs: arch-qwen-llama 9.2).

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_DECODE_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_DECODE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "storage/format/safetensors.h"

namespace assay {

enum class WeightFormat { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1 };

std::string_view WeightFormatName(WeightFormat format);
uint64_t WeightBlock(WeightFormat format);       // values per block: 1 or 32
uint64_t WeightBlockBytes(WeightFormat format);  // bytes per block

std::optional<WeightFormat> FormatOfDType(DType dtype);
std::optional<WeightFormat> FormatOfGgml(uint32_t ggml_type);
inline constexpr std::string_view kSupportedWeightFormats =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1";

// Decodes `count` values (a multiple of the block) from `bytes` (little-endian, any alignment) to
// `out`. Products and sums are rounded separately in float32: d * n is exact in every format here,
// d * n + m is rounded once.
void DecodeWeights(WeightFormat format, const uint8_t* bytes, uint64_t count, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_DECODE_H_
