// A matrix of a Hugging Face checkpoint whose codes, scales and zero points lie in tensors of their
// own, decoded row by row.
//
// Each format has a file of its own with its layout and formula; packed_open.h finds the format.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_PACKED_TENSOR_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_PACKED_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "storage/format/safetensors.h"

namespace assay {

class PackedTensor {
 public:
  virtual ~PackedTensor() = default;

  // Writes rows [row_begin, row_end) as float32, row major, to `out`. The rows are the caller's
  // promise. Any split into ranges gives the same bits. Thread-safe.
  virtual void Decode(uint64_t row_begin, uint64_t row_end, float* out) const = 0;

  const std::string& format() const { return format_; }  // "pack-quantized int4, groups of 32"
  uint64_t bytes() const { return bytes_; }  // codes, scales, zero points and indices in the file

 protected:
  PackedTensor(std::string format, uint64_t bytes) : format_(std::move(format)), bytes_(bytes) {}

 private:
  const std::string format_;
  const uint64_t bytes_;
};

// The tensors that together are one matrix, found under one module's name; a null pointer: absent.
// They point into open files, which outlive what is made of them.
struct PackedParts {
  std::string file;    // for messages
  std::string module;  // "model.layers.0.mlp.down_proj"
  uint64_t rows = 0;   // of the decoded matrix: output channels
  uint64_t cols = 0;   // inputs
  const TensorView* codes = nullptr;
  const TensorView* scales = nullptr;
  const TensorView* zeros = nullptr;
  const TensorView* group_index = nullptr;
  const TensorView* global_scale = nullptr;
  uint64_t bytes() const;  // of all that are there
};

// QUANTIZATION_INVALID: "<file>: tensor "<name>" <why>; ...".
absl::Status QuantizationError(const PackedParts& parts, const TensorView& tensor,
                               std::string_view why);
// The same for a tensor that is not there.
absl::Status QuantizationMissing(const PackedParts& parts, std::string_view what);

// QUANTIZATION_INVALID unless `tensor` has this type and shape (a shape of one value also fits a
// scalar).
absl::Status CheckPart(const PackedParts& parts, const TensorView& tensor, DType dtype,
                       const std::vector<uint64_t>& shape);

// "[3, 4]"
std::string ShapeText(const std::vector<uint64_t>& shape);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_PACKED_TENSOR_H_
