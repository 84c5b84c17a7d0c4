#include "worker/capture/weights/gguf_k_quants.h"

#include "worker/capture/weights/load.h"

namespace assay {
namespace {

constexpr uint64_t kBlock = 256;

// Scale and minimum of sub-block j of Q4_K and Q5_K: eight of each, 6 bits, in 12 bytes. The first
// four lie in the low bits of their bytes; the upper two bits of those bytes complete the others.
struct ScaleMin {
  int scale, min;
};
ScaleMin SixBitPair(const uint8_t* s, int j) {
  if (j < 4) return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4)};
}

// Scale j of Q3_K: 4 low bits in S[0..7], 2 high bits in S[8..11], biased by 32.
int Q3Scale(const uint8_t* s, int j) {
  const int low = (s[j & 7] >> (4 * (j >> 3))) & 15;
  const int high = (s[8 + (j & 3)] >> (2 * (j >> 2))) & 3;
  return (low | (high << 4)) - 32;
}

}  // namespace

// In all of them, the inner loops have a constant scale and a fixed trip count, so that the
// compiler makes vectors of them.

void DecodeQ2_K(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 84, out += kBlock) {
    const float d = LoadF16(in + 80), dmin = LoadF16(in + 82);
    for (int j = 0; j < 16; ++j) {  // 16 values each
      const float scale = d * static_cast<float>(in[j] & 15);
      const float min = dmin * static_cast<float>(in[j] >> 4);
      const uint8_t* qs = in + 16 + 32 * (j >> 3) + 16 * (j & 1);
      const int shift = 2 * ((j >> 1) & 3);
      for (int l = 0; l < 16; ++l) {
        out[16 * j + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - min;
      }
    }
  }
}

void DecodeQ3_K(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 110, out += kBlock) {
    const float d = LoadF16(in + 108);
    for (int j = 0; j < 16; ++j) {
      const float scale = d * static_cast<float>(Q3Scale(in + 96, j));
      const uint8_t* high = in + 16 * (j & 1);
      const uint8_t* qs = in + 32 + 32 * (j >> 3) + 16 * (j & 1);
      const int shift = 2 * ((j >> 1) & 3), bit = j >> 1;
      for (int l = 0; l < 16; ++l) {
        const int n = ((qs[l] >> shift) & 3) + 4 * ((high[l] >> bit) & 1) - 4;
        out[16 * j + l] = scale * static_cast<float>(n);
      }
    }
  }
}

void DecodeQ4_K(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 144, out += kBlock) {
    const float d = LoadF16(in), dmin = LoadF16(in + 2);
    for (int j = 0; j < 8; ++j) {  // 32 values each
      const ScaleMin pair = SixBitPair(in + 4, j);
      const float scale = d * static_cast<float>(pair.scale);
      const float min = dmin * static_cast<float>(pair.min);
      const uint8_t* qs = in + 16 + 32 * (j >> 1);
      const int shift = 4 * (j & 1);
      for (int l = 0; l < 32; ++l) {
        out[32 * j + l] = scale * static_cast<float>((qs[l] >> shift) & 15) - min;
      }
    }
  }
}

void DecodeQ5_K(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 176, out += kBlock) {
    const float d = LoadF16(in), dmin = LoadF16(in + 2);
    const uint8_t* high = in + 16;
    for (int j = 0; j < 8; ++j) {
      const ScaleMin pair = SixBitPair(in + 4, j);
      const float scale = d * static_cast<float>(pair.scale);
      const float min = dmin * static_cast<float>(pair.min);
      const uint8_t* qs = in + 48 + 32 * (j >> 1);
      const int shift = 4 * (j & 1);
      for (int l = 0; l < 32; ++l) {
        const int n = ((qs[l] >> shift) & 15) | (((high[l] >> j) & 1) << 4);
        out[32 * j + l] = scale * static_cast<float>(n) - min;
      }
    }
  }
}

void DecodeQ6_K(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 210, out += kBlock) {
    const float d = LoadF16(in + 208);
    for (int j = 0; j < 16; ++j) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(in[192 + j]));
      const int part = (j >> 1) & 3;  // of 32 values, within a half of 128
      const uint8_t* low = in + 64 * (j >> 3) + 32 * (part & 1) + 16 * (j & 1);
      const uint8_t* high = in + 128 + 32 * (j >> 3) + 16 * (j & 1);
      const int low_shift = 4 * (part >> 1), high_shift = 2 * part;
      for (int l = 0; l < 16; ++l) {
        const int n = ((low[l] >> low_shift) & 15) | (((high[l] >> high_shift) & 3) << 4);
        out[16 * j + l] = scale * static_cast<float>(n - 32);
      }
    }
  }
}

}  // namespace assay
