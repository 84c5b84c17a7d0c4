// Element formats of quantized checkpoints, widened exactly (arch-qwen-llama 8.0; OCP 8-bit
// floating point 1.0 and OCP microscaling formats 1.0).
// The functions are for single values; loops over codes look them up in the tables.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_ELEMENTS_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_ELEMENTS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace assay {

// E4M3FN, s eeee mmm: (-1)^s (1 + m/8) 2^(e-7), m 2^-9 where e = 0; 0x7f and 0xff are NaN, there is
// no infinity, the largest value is 448.
constexpr float E4M3ToFloat(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const float normal = std::bit_cast<float>((magnitude << 20) + (uint32_t{120} << 23));
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f;
  float value = magnitude < 8 ? subnormal : normal;
  value = magnitude == 0x7f ? std::numeric_limits<float>::quiet_NaN() : value;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | ((code & 0x80u) << 24));
}

// E2M1, s ee m in the low four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (8 is -0).
constexpr float E2M1ToFloat(uint8_t code) {
  const uint32_t magnitude = code & 7u;
  const float normal = std::bit_cast<float>((magnitude << 22) + (uint32_t{126} << 23));
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0.5f;
  const float value = magnitude < 2 ? subnormal : normal;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | ((code & 8u) << 28));
}

// E8M0, a scale: 2^(code - 127), 255 is NaN. 2^-127 is a float32 subnormal.
constexpr float E8M0ToFloat(uint8_t code) {
  const uint32_t bits = code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23;
  return std::bit_cast<float>(code == 255 ? 0x7fc00000u : bits);
}

// By code, and the two values of a byte with E2M1 codes in its low and high half.
inline constexpr std::array<float, 256> kE4M3 = [] {
  std::array<float, 256> table{};
  for (size_t code = 0; code < 256; ++code) table[code] = E4M3ToFloat(static_cast<uint8_t>(code));
  return table;
}();
inline constexpr std::array<std::array<float, 2>, 256> kE2M1Pairs = [] {
  std::array<std::array<float, 2>, 256> table{};
  for (size_t byte = 0; byte < 256; ++byte)
    table[byte] = {E2M1ToFloat(byte & 15), E2M1ToFloat(static_cast<uint8_t>(byte >> 4))};
  return table;
}();

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_ELEMENTS_H_
