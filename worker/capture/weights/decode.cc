#include "worker/capture/weights/decode.h"

#include "storage/base/bf16.h"
#include "storage/format/gguf.h"
#include "worker/capture/weights/gguf_fp4.h"
#include "worker/capture/weights/gguf_iq4.h"
#include "worker/capture/weights/gguf_k_quants.h"
#include "worker/capture/weights/gguf_simple.h"
#include "worker/capture/weights/load.h"

namespace assay {
namespace {

void DecodeF32(const uint8_t* in, uint64_t count, float* out) { std::memcpy(out, in, count * 4); }

void DecodeF16(const uint8_t* in, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = LoadF16(in + 2 * i);
}

void DecodeBf16(const uint8_t* in, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = Bf16ToFloat(Load<uint16_t>(in + 2 * i));
}

struct FormatInfo {
  WeightFormat format;
  uint32_t ggml_type;
  std::string_view name;
  uint64_t block;
  uint64_t bytes;
  void (*decode)(const uint8_t* in, uint64_t blocks, float* out);
};

constexpr FormatInfo kFormats[] = {
    {WeightFormat::kF32, kGgmlF32, "F32", 1, 4, DecodeF32},
    {WeightFormat::kF16, kGgmlF16, "F16", 1, 2, DecodeF16},
    {WeightFormat::kBF16, kGgmlBF16, "BF16", 1, 2, DecodeBf16},
    {WeightFormat::kQ8_0, kGgmlQ8_0, "Q8_0", 32, 34, DecodeQ8_0},
    {WeightFormat::kQ4_0, kGgmlQ4_0, "Q4_0", 32, 18, DecodeQ4_0},
    {WeightFormat::kQ4_1, kGgmlQ4_1, "Q4_1", 32, 20, DecodeQ4_1},
    {WeightFormat::kQ5_0, kGgmlQ5_0, "Q5_0", 32, 22, DecodeQ5_0},
    {WeightFormat::kQ5_1, kGgmlQ5_1, "Q5_1", 32, 24, DecodeQ5_1},
    {WeightFormat::kQ2_K, kGgmlQ2_K, "Q2_K", 256, 84, DecodeQ2_K},
    {WeightFormat::kQ3_K, kGgmlQ3_K, "Q3_K", 256, 110, DecodeQ3_K},
    {WeightFormat::kQ4_K, kGgmlQ4_K, "Q4_K", 256, 144, DecodeQ4_K},
    {WeightFormat::kQ5_K, kGgmlQ5_K, "Q5_K", 256, 176, DecodeQ5_K},
    {WeightFormat::kQ6_K, kGgmlQ6_K, "Q6_K", 256, 210, DecodeQ6_K},
    {WeightFormat::kIQ4_NL, kGgmlIQ4_NL, "IQ4_NL", 32, 18, DecodeIQ4_NL},
    {WeightFormat::kIQ4_XS, kGgmlIQ4_XS, "IQ4_XS", 256, 136, DecodeIQ4_XS},
    {WeightFormat::kMXFP4, kGgmlMXFP4, "MXFP4", 32, 17, DecodeMxfp4},
    {WeightFormat::kNVFP4, kGgmlNVFP4, "NVFP4", 64, 36, DecodeNvfp4},
};

const FormatInfo& InfoOf(WeightFormat format) { return kFormats[static_cast<size_t>(format)]; }

}  // namespace

std::string_view WeightFormatName(WeightFormat format) { return InfoOf(format).name; }
uint64_t WeightBlock(WeightFormat format) { return InfoOf(format).block; }
uint64_t WeightBlockBytes(WeightFormat format) { return InfoOf(format).bytes; }

std::optional<WeightFormat> FormatOfDType(DType dtype) {
  if (dtype == DType::kF32) return WeightFormat::kF32;
  if (dtype == DType::kF16) return WeightFormat::kF16;
  if (dtype == DType::kBF16) return WeightFormat::kBF16;
  return std::nullopt;
}

std::optional<WeightFormat> FormatOfGgml(uint32_t ggml_type) {
  for (const FormatInfo& info : kFormats) {
    if (info.ggml_type == ggml_type) return info.format;
  }
  return std::nullopt;
}

void DecodeWeights(WeightFormat format, const uint8_t* bytes, uint64_t count, float* out) {
  const FormatInfo& info = InfoOf(format);
  info.decode(bytes, count / info.block, out);
}

}  // namespace assay
