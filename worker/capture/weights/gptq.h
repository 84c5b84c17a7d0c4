// GPTQ (arch-qwen-llama 8.4; AutoGPTQ's and GPTQModel's QuantLinear). The stored matrix is the
// transpose of the decoded one; B bits, 32 / B values to a word, for 3 bits 32 values to three
// words (value k of them in bits 3 k to 3 k + 2, counted over the words):
//
//   X.qweight  I32 [I B / 32, O]      q[i, o] from bit i B mod 32 of word [i B / 32, o] on
//   X.qzeros   I32 [G, O B / 32]      zs[g, o] from bit o B mod 32 of word [g, o B / 32] on
//   X.scales   F16, BF16, F32 [G, O]
//   X.g_idx    I32 [I]: the group of each input; absent: groups follow each other
//
//   w[o, i] = scales[g, o] (q - z), rounded once to float32
//   z = zs + 1 in version 1 of the format, zs in version 2, always 2^(B-1) when symmetric
//
// Symmetric files of both versions are labelled version 1 in the wild, so their stored zeros are
// only checked to be one of the two spellings of 2^(B-1). An asymmetric version 1 zero of 2^B - 1
// is refused: decoders disagree whether it means 2^B or 0.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_GPTQ_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_GPTQ_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/capture/weights/packed_tensor.h"

namespace assay {

struct GptqScheme {
  int bits = 4;        // 2, 3, 4 or 8
  uint64_t group = 0;  // inputs; 0: all of them
  bool symmetric = true;
  bool zero_plus_one = true;  // version 1
};

// Takes codes (qweight), scales, zeros (may be missing when symmetric) and group_index of `parts`.
// QUANTIZATION_INVALID, GPTQ_ZERO_AMBIGUOUS.
absl::StatusOr<std::unique_ptr<PackedTensor>> MakeGptq(const PackedParts& parts,
                                                       const GptqScheme& scheme);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_GPTQ_H_
