// Exact decoding of self-contained stored values to float32: plain floats and GGUF blocks. Layouts
// and formulas stand in gguf_simple.h, gguf_k_quants.h, gguf_iq4.h and gguf_fp4.h. Formats whose
// scales lie in other tensors are in packed_tensor.h.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_DECODE_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_DECODE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "storage/format/safetensors.h"

namespace assay {

enum class WeightFormat {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4
};

std::string_view WeightFormatName(WeightFormat format);
uint64_t WeightBlock(WeightFormat format);       // values per block: 1, 32, 64 or 256
uint64_t WeightBlockBytes(WeightFormat format);  // bytes per block

std::optional<WeightFormat> FormatOfDType(DType dtype);
std::optional<WeightFormat> FormatOfGgml(uint32_t ggml_type);

// Decodes `count` values (a multiple of the block) from `bytes` (little-endian, any alignment) to
// `out`. Every product and sum of a format's formula is rounded to float32 by itself.
void DecodeWeights(WeightFormat format, const uint8_t* bytes, uint64_t count, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_DECODE_H_
