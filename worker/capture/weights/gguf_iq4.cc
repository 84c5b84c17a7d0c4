#include "worker/capture/weights/gguf_iq4.h"

#include "worker/capture/weights/load.h"

namespace assay {
namespace {

constexpr float kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

// 32 values of one scale. The products are formed once for each code, not for each value.
void Decode32(float scale, const uint8_t* qs, float* out) {
  float table[16];
  for (int n = 0; n < 16; ++n) table[n] = scale * kValues[n];
  for (int l = 0; l < 16; ++l) {
    out[l] = table[qs[l] & 15];
    out[l + 16] = table[qs[l] >> 4];
  }
}

}  // namespace

void DecodeIQ4_NL(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 18, out += 32) Decode32(LoadF16(in), in + 2, out);
}

void DecodeIQ4_XS(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b, in += 136, out += 256) {
    const float d = LoadF16(in);
    const int high = Load<uint16_t>(in + 2);
    for (int j = 0; j < 8; ++j) {
      const int low = (in[4 + (j >> 1)] >> (4 * (j & 1))) & 15;
      const int scale = (low | (((high >> (2 * j)) & 3) << 4)) - 32;
      Decode32(d * static_cast<float>(scale), in + 8 + 16 * j, out + 32 * j);
    }
  }
}

}  // namespace assay
