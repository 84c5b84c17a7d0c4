// Language-model heads: a safetensors file with one [vocab, hidden] tensor.

#ifndef ASSAY_STORAGE_FORMAT_HEAD_H_
#define ASSAY_STORAGE_FORMAT_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/safetensors.h"

namespace assay {

struct HeadInfo {
  std::string tensor;
  uint64_t vocab = 0;
  uint64_t hidden = 0;
  DType dtype = DType::kBF16;  // as stored in the file
  // SHA-256 of the [vocab, hidden] values as bf16, little-endian, F32 and F16 rounded once to
  // nearest even: the head's identity, whatever file holds it.
  std::string content_sha256;
  std::string file_sha256;
  double max_abs = 0;  // MaxAbs of the stored values
};

// Element `i` of a BF16, F32 or F16 tensor; widening is exact.
float ElementOf(const TensorView& tensor, uint64_t i);

// The largest |value| among the finite elements of a BF16, F32 or F16 tensor; 0 for other types.
double MaxAbs(const TensorView& tensor);

// The head's tensor: `tensor` when given, else "weight", else "lm_head.weight", else the first of
// the file (published readers do the same). HEAD_INVALID when it is missing, not two-dimensional,
// empty, or not BF16, F32 or F16.
absl::StatusOr<TensorView> FindHeadTensor(const SafetensorsFile& file, std::string_view tensor);

// A bias added to a head's logits: a [vocab] tensor in F32, BF16 or F16, widened exactly.
struct HeadBias {
  std::string tensor;
  std::vector<float> values;
  std::string content_sha256;  // of the values as little-endian F32
};

// The tensor beside a head's weight that would be its bias ("lm_head.bias" for "lm_head.weight"),
// if the file has it; else "".
std::string BiasBeside(const SafetensorsFile& file, std::string_view weight_tensor);

// `tensor` when given, else "lm_head.bias", else "bias", else the file's only tensor. HEAD_INVALID
// when it is missing, ambiguous, of another shape than [vocab] or another dtype.
absl::StatusOr<HeadBias> ReadHeadBias(const SafetensorsFile& file, std::string_view tensor,
                                      uint64_t vocab);

// Opens, finds, digests. Reads the whole file.
absl::StatusOr<HeadInfo> InspectHead(const std::string& path, std::string_view tensor);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_HEAD_H_
