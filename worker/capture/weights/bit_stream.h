// Unsigned values of 1 to 8 bits packed densely into a little-endian bit stream, as
// compressed-tensors' pack_to_int32 writes it into 32-bit words (arch-qwen-llama 8.2): element i
// occupies bits i * bits .. i * bits + bits - 1, and may straddle two words.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_BIT_STREAM_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_BIT_STREAM_H_

#include <cstdint>

namespace assay {

// 32-bit words that hold `count` values.
inline uint64_t BitStreamWords(uint64_t count, int bits) {
  return (count * static_cast<uint64_t>(bits) + 31) / 32;
}

// Writes the first `count` values as floats. `bytes` holds BitStreamWords(count, bits) words; none
// beyond the last value's byte is read.
void UnpackBits(const uint8_t* bytes, int bits, uint64_t count, float* out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_BIT_STREAM_H_
