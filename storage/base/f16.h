// IEEE half precision, kept as uint16_t.

#ifndef ASSAY_STORAGE_BASE_F16_H_
#define ASSAY_STORAGE_BASE_F16_H_

#include <bit>
#include <cstdint>

namespace assay {

// Widening is exact (a NaN stays a NaN). Without branches, so that loops over it vectorise: the
// exponent of a normal number is rebased by a product with a power of two, a subnormal is the
// mantissa's distance from 0.5 in units of 2^-24.
inline float F16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const float normal = std::bit_cast<float>(magnitude + (uint32_t{224} << 23)) * 0x1.0p-112f;
  const float subnormal = std::bit_cast<float>((magnitude >> 13) | (uint32_t{126} << 23)) - 0.5f;
  const float value = magnitude < (uint32_t{1} << 23) ? subnormal : normal;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_F16_H_
