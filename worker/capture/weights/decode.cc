#include "worker/capture/weights/decode.h"

#include <bit>
#include <cstring>

#include "storage/base/bf16.h"
#include "storage/base/f16.h"
#include "storage/format/gguf.h"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little, "stored values are little-endian");

constexpr uint64_t kBlock = 32;
constexpr int kHalf = 16;  // low nibbles are elements 0..15, high nibbles 16..31

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

float LoadF16(const uint8_t* bytes) { return F16ToFloat(Load<uint16_t>(bytes)); }

void DecodeF32(const uint8_t* in, uint64_t count, float* out) { std::memcpy(out, in, count * 4); }

void DecodeF16(const uint8_t* in, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = LoadF16(in + 2 * i);
}

void DecodeBf16(const uint8_t* in, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = Bf16ToFloat(Load<uint16_t>(in + 2 * i));
}

// The loops below have fixed trip counts and no branches, so the compiler makes vectors of them.

void DecodeQ8_0(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 34, out += kBlock) {
    const float d = LoadF16(in);
    for (uint64_t i = 0; i < kBlock; ++i) {
      out[i] = d * static_cast<float>(static_cast<int8_t>(in[2 + i]));
    }
  }
}

void DecodeQ4_0(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 18, out += kBlock) {
    const float d = LoadF16(in);
    for (int i = 0; i < kHalf; ++i) {
      const int byte = in[2 + i];
      out[i] = d * static_cast<float>((byte & 15) - 8);
      out[i + kHalf] = d * static_cast<float>((byte >> 4) - 8);
    }
  }
}

void DecodeQ4_1(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 20, out += kBlock) {
    const float d = LoadF16(in);
    const float m = LoadF16(in + 2);
    for (int i = 0; i < kHalf; ++i) {
      const int byte = in[4 + i];
      out[i] = d * static_cast<float>(byte & 15) + m;
      out[i + kHalf] = d * static_cast<float>(byte >> 4) + m;
    }
  }
}

void DecodeQ5_0(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 22, out += kBlock) {
    const float d = LoadF16(in);
    const uint32_t high = Load<uint32_t>(in + 2);
    for (int i = 0; i < kHalf; ++i) {
      const int byte = in[6 + i];
      const int low5 = static_cast<int>((high >> i) & 1u) << 4;
      const int high5 = static_cast<int>((high >> (i + kHalf)) & 1u) << 4;
      out[i] = d * static_cast<float>(((byte & 15) | low5) - 16);
      out[i + kHalf] = d * static_cast<float>(((byte >> 4) | high5) - 16);
    }
  }
}

void DecodeQ5_1(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 24, out += kBlock) {
    const float d = LoadF16(in);
    const float m = LoadF16(in + 2);
    const uint32_t high = Load<uint32_t>(in + 4);
    for (int i = 0; i < kHalf; ++i) {
      const int byte = in[8 + i];
      const int low5 = static_cast<int>((high >> i) & 1u) << 4;
      const int high5 = static_cast<int>((high >> (i + kHalf)) & 1u) << 4;
      out[i] = d * static_cast<float>((byte & 15) | low5) + m;
      out[i + kHalf] = d * static_cast<float>((byte >> 4) | high5) + m;
    }
  }
}

struct FormatInfo {
  WeightFormat format;
  uint32_t ggml_type;
  std::string_view name;
  uint64_t block;
  uint64_t bytes;
};

constexpr FormatInfo kFormats[] = {
    {WeightFormat::kF32, kGgmlF32, "F32", 1, 4},
    {WeightFormat::kF16, kGgmlF16, "F16", 1, 2},
    {WeightFormat::kBF16, kGgmlBF16, "BF16", 1, 2},
    {WeightFormat::kQ8_0, kGgmlQ8_0, "Q8_0", kBlock, 34},
    {WeightFormat::kQ4_0, kGgmlQ4_0, "Q4_0", kBlock, 18},
    {WeightFormat::kQ4_1, kGgmlQ4_1, "Q4_1", kBlock, 20},
    {WeightFormat::kQ5_0, kGgmlQ5_0, "Q5_0", kBlock, 22},
    {WeightFormat::kQ5_1, kGgmlQ5_1, "Q5_1", kBlock, 24},
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
  const uint64_t blocks = count / InfoOf(format).block;
  switch (format) {
    case WeightFormat::kF32:
      return DecodeF32(bytes, count, out);
    case WeightFormat::kF16:
      return DecodeF16(bytes, count, out);
    case WeightFormat::kBF16:
      return DecodeBf16(bytes, count, out);
    case WeightFormat::kQ8_0:
      return DecodeQ8_0(bytes, blocks, out);
    case WeightFormat::kQ4_0:
      return DecodeQ4_0(bytes, blocks, out);
    case WeightFormat::kQ4_1:
      return DecodeQ4_1(bytes, blocks, out);
    case WeightFormat::kQ5_0:
      return DecodeQ5_0(bytes, blocks, out);
    case WeightFormat::kQ5_1:
      return DecodeQ5_1(bytes, blocks, out);
  }
}

}  // namespace assay
