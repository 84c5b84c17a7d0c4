// GGUF K-quants: blocks of 256 values with scales of sub-blocks (arch-qwen-llama 9.3; ggml-common.h
// and dequantize_row_* of llama.cpp). d and dmin are half precision, widened; every product and
// difference is rounded to float32 by itself.
//
//   Q2_K   84 bytes  S[16] @0, qs[64] @16, d @80, dmin @82
//          (d (S & 15)) n - dmin (S >> 4), S of 16 values each, n of 2 bits
//   Q3_K  110 bytes  hm[32] @0, qs[64] @32, S[12] @96, d @108
//          (d (sc - 32)) (n - 4 (1 - h)), sc of 6 bits for 16 values each, n of 2 bits, h from hm
//   Q4_K  144 bytes  d @0, dmin @2, S[12] @4, qs[128] @16
//          (d sc) n - dmin mn, sc and mn of 6 bits for 32 values each, n of 4 bits
//   Q5_K  176 bytes  d @0, dmin @2, S[12] @4, qh[32] @16, qs[128] @48
//          as Q4_K with a fifth bit of n from qh
//   Q6_K  210 bytes  ql[128] @0, qh[64] @128, int8 sc[16] @192, d @208
//          (d sc) (n - 32), sc of 16 values each, n of 4 + 2 bits

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_K_QUANTS_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_K_QUANTS_H_

#include <cstdint>

namespace assay {

// `in` holds `blocks` whole blocks at any alignment, `out` has room for 256 values of each.
void DecodeQ2_K(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ3_K(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ4_K(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ5_K(const uint8_t* in, uint64_t blocks, float* out);
void DecodeQ6_K(const uint8_t* in, uint64_t blocks, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_GGUF_K_QUANTS_H_
