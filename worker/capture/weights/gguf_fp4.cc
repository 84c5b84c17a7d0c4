#include "worker/capture/weights/gguf_fp4.h"

#include <bit>

namespace assay {
namespace {

constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128) for every e (ggml_e8m0_to_fp32_half).
float HalfE8M0(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : (uint32_t{e} - 1) << 23);
}

// Half of an E4M3 magnitude (ggml_ue4m3_to_fp32): 0x7f is 0; 0xff, which no writer gives, is 240.
float HalfUE4M3(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const float mantissa = static_cast<float>(code & 7);
  if (code == 0x7f) return 0;
  if (exponent == 0) return mantissa * 0x1p-10f;
  return (8 + mantissa) * std::bit_cast<float>(static_cast<uint32_t>(exponent + 116) << 23);
}

// `count` bytes: low nibbles, then high nibbles.
void DecodeNibbles(float scale, const uint8_t* qs, int count, float* out) {
  float table[16];
  for (int n = 0; n < 16; ++n) table[n] = scale * kDoubled[n];
  for (int l = 0; l < count; ++l) {
    out[l] = table[qs[l] & 15];
    out[l + count] = table[qs[l] >> 4];
  }
}

}  // namespace

void DecodeMxfp4(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 17, out += 32) {
    DecodeNibbles(HalfE8M0(in[0]), in + 1, 16, out);
  }
}

void DecodeNvfp4(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 36, out += 64) {
    for (int s = 0; s < 4; ++s) {
      DecodeNibbles(HalfUE4M3(in[s]), in + 4 + 8 * s, 8, out + 16 * s);
    }
  }
}

}  // namespace assay
