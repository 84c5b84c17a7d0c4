// GGUF blocks of 32 values with a half-precision scale d (arch-qwen-llama 9.2; ggml-common.h of
// llama.cpp).
//
//   Q8_0  34 bytes  d @0, int8 q[32] @2                      d q
//   Q4_0  18 bytes  d @0, qs[16] @2                          d (n - 8)
//   Q4_1  20 bytes  d @0, m f16 @2, qs[16] @4                d n + m
//   Q5_0  22 bytes  d @0, qh u32 @2, qs[16] @6               d ((n | bit i of qh << 4) - 16)
//   Q5_1  24 bytes  d @0, m f16 @2, qh u32 @4, qs[16] @8     d (n | bit i of qh << 4) + m
//
// n of element i < 16 is the low nibble of qs[i], of i >= 16 the high nibble of qs[i - 16]. d q is
// exact in float32, the sum with m is rounded once.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_SIMPLE_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_SIMPLE_H_

#include <cstdint>

namespace assay {

// `in` holds `blocks` whole blocks at any alignment, `out` has room for 32 values of each.
void DecodeQ8_0(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ4_0(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ4_1(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ5_0(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ5_1(const uint8_t* in, uint64_t blocks, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_SIMPLE_H_
