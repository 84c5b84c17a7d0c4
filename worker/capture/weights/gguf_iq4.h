// GGUF's non-linear 4-bit formats (arch-qwen-llama 9.2, 9.3; ggml-common.h of llama.cpp): a nibble
// names one of sixteen values K = -127, -104, ..., 113.
//
//   IQ4_NL   18 bytes, 32 values   d f16 @0, qs[16] @2                     d K[n]
//   IQ4_XS  136 bytes, 256 values  d f16 @0, sh u16 @2, sl[4] @4, qs[128] @8
//           (d (sc - 32)) K[n], sc of 6 bits for 32 values each: 4 bits in sl, 2 in sh
//
// In each 32 values, low nibbles are elements 0..15 and high nibbles 16..31.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_IQ4_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_IQ4_H_

#include <cstdint>

namespace assay {

// `in` holds `blocks` whole blocks at any alignment, `out` has room for their values.
void DecodeIQ4_NL(const uint8_t* in, uint64_t blocks, float* out);
void DecodeIQ4_XS(const uint8_t* in, uint64_t blocks, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_IQ4_H_
