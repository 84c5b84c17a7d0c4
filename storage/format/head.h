// Language-model heads: a safetensors file with one [vocab, hidden] tensor.

#ifndef ASSAY_STORAGE_FORMAT_HEAD_H_
#define ASSAY_STORAGE_FORMAT_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>

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
};

// The head's tensor: `tensor` when given, else "weight", else "lm_head.weight", else the first of
// the file (published readers do the same). HEAD_INVALID when it is missing, not two-dimensional,
// empty, or not BF16, F32 or F16.
absl::StatusOr<TensorView> FindHeadTensor(const SafetensorsFile& file, std::string_view tensor);

// Opens, finds, digests. Reads the whole file.
absl::StatusOr<HeadInfo> InspectHead(const std::string& path, std::string_view tensor);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_HEAD_H_
