// Where one tensor of a checkpoint lies and how its rows are turned into float32.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_STORED_TENSOR_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_STORED_TENSOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/capture/weights/decode.h"
#include "worker/capture/weights/packed_tensor.h"

namespace assay {

struct StoredTensor {
  std::string stored_name;  // the file's name for it, for messages
  std::string file;
  WeightFormat format = WeightFormat::kF32;
  std::vector<uint64_t> shape;     // [rows, cols] or [n]
  std::span<const uint8_t> bytes;  // rows() * row_bytes
  uint64_t row_bytes = 0;
  // Rows of every head interleaved as GGUF's llama converter does: 0 none, else rows per head.
  uint64_t permuted_head_rows = 0;
  bool block_linear = false;  // a transform applies
  // GGUF's tensor "X.scale" beside "X.weight" (NVFP4): multiplies every value.
  float scale = 1;
  // Not null: the rows come from here, and format, bytes and row_bytes say nothing.
  std::shared_ptr<const PackedTensor> packed;

  std::string_view format_name() const {
    return packed == nullptr ? WeightFormatName(format) : std::string_view(packed->format());
  }
  uint64_t stored_bytes() const {  // scales, zero points and indices included
    return packed == nullptr ? bytes.size() + (scale == 1 ? 0 : sizeof(scale)) : packed->bytes();
  }

  uint64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  uint64_t cols() const { return shape.size() < 2 ? 1 : shape[1]; }
};

// The stored row that holds row `row` of the HF order: HF row p * d/2 + j of a head is stored row
// 2j + p (arch-qwen-llama 9.5).
inline uint64_t StoredRow(const StoredTensor& tensor, uint64_t row) {
  const uint64_t d = tensor.permuted_head_rows;
  if (d == 0) return row;
  const uint64_t in_head = row % d;
  return row - in_head + 2 * (in_head % (d / 2)) + in_head / (d / 2);
}

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_STORED_TENSOR_H_
