// bfloat16: the upper half of an IEEE float32, kept as uint16_t.

#ifndef ASSAY_STORAGE_BASE_BF16_H_
#define ASSAY_STORAGE_BASE_BF16_H_

#include <bit>
#include <cstdint>

namespace assay {

// Widening is exact.
inline float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a (quiet) NaN, overflow goes to infinity.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_BF16_H_
