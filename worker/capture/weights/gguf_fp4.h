// GGUF's 4-bit floating point formats (arch-qwen-llama 9.2; ggml-common.h of llama.cpp): E2M1
// elements as doubled integers 0, 1, 2, 3, 4, 6, 8, 12 and a halved scale. Code 8 is +0 there, not
// -0.
//
//   MXFP4  17 bytes, 32 values  e u8 @0, qs[16] @1: E2M1(n) 2^(e - 127); e = 0 is 2^-127, e = 255
//          goes on as 2^128. Low nibbles are elements 0..15, high nibbles 16..31.
//   NVFP4  36 bytes, 64 values  d[4] @0, qs[32] @4: E2M1(n) d, d of 16 values each, E4M3 without
//   its
//          sign; 0x7f is 0. Of sub-block s, byte 8s + j holds elements 16s + j and 16s + 8 + j.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_FP4_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_FP4_H_

#include <cstdint>

namespace assay {

// `in` holds `blocks` whole blocks at any alignment, `out` has room for their values. A sibling
// tensor that scales a whole NVFP4 tensor is not applied here.
void DecodeMxfp4(const uint8_t* in, uint64_t blocks, float* out);
void DecodeNvfp4(const uint8_t* in, uint64_t blocks, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_FP4_H_
