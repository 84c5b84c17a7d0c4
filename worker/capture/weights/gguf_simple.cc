#include "worker/capture/weights/gguf_simple.h"

#include "worker/capture/weights/load.h"

namespace assay {
namespace {

constexpr uint64_t kBlock = 32;
constexpr int kHalf = 16;  // low nibbles are elements 0..15, high nibbles 16..31

}  // namespace

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

}  // namespace assay
