#include "worker/capture/weights/scale_grid.h"

#include <algorithm>

#include "storage/base/macros.h"
#include "worker/capture/weights/decode.h"
#include "worker/capture/weights/elements.h"
#include "worker/capture/weights/load.h"

namespace assay {
namespace {

uint64_t Blocks(uint64_t total, uint64_t block) { return (total + block - 1) / block; }

}  // namespace

absl::StatusOr<ScaleGrid> ScaleGrid::Make(const PackedParts& parts, ScaleBlock block) {
  if (parts.scales == nullptr) return QuantizationMissing(parts, "scale");
  const TensorView& view = *parts.scales;
  const bool known = FormatOfDType(view.dtype).has_value() || view.dtype == DType::kF8E4M3 ||
                     view.dtype == DType::kU8;
  if (!known) {
    return QuantizationError(
        parts, view,
        "holds scales as " + std::string(DTypeName(view.dtype)) + ", which no format does");
  }
  if (block.rows == 0) block.rows = parts.rows;
  if (block.cols == 0) block.cols = parts.cols;
  const uint64_t down = Blocks(parts.rows, block.rows), across = Blocks(parts.cols, block.cols);
  std::vector<uint64_t> shape = view.shape;
  while (shape.size() < 2) shape.push_back(1);
  if (shape != std::vector<uint64_t>{down, across}) {
    return QuantizationError(parts, view,
                             "is " + ShapeText(view.shape) + "; a matrix of " +
                                 ShapeText({parts.rows, parts.cols}) + " with scales for each " +
                                 std::to_string(block.rows) + " x " + std::to_string(block.cols) +
                                 " values needs " + ShapeText({down, across}));
  }
  return ScaleGrid(view, block, across);
}

void ScaleGrid::Row(uint64_t row, float* out) const {
  const uint64_t first = row / block_.rows * groups_;
  const uint8_t* bytes = view_.bytes.data() + first * DTypeBytes(view_.dtype);
  if (view_.dtype == DType::kF8E4M3) {
    for (uint64_t g = 0; g < groups_; ++g) out[g] = kE4M3[bytes[g]];
  } else if (view_.dtype == DType::kU8) {
    for (uint64_t g = 0; g < groups_; ++g) out[g] = E8M0ToFloat(bytes[g]);
  } else {
    DecodeWeights(*FormatOfDType(view_.dtype), bytes, groups_, out);
  }
}

void ScaleRow(const float* scales, uint64_t group_cols, uint64_t cols, float* values) {
  for (uint64_t begin = 0; begin < cols; begin += group_cols, ++scales) {
    const float scale = *scales;
    const uint64_t end = std::min(cols, begin + group_cols);
    for (uint64_t i = begin; i < end; ++i) values[i] *= scale;
  }
}

void ScaleCodes(const float* scales, const float* zeros, uint64_t group_cols, const int32_t* index,
                uint64_t cols, float* values) {
  if (index != nullptr) {
    for (uint64_t i = 0; i < cols; ++i) {
      const int32_t g = index[i];
      values[i] = (values[i] - zeros[g]) * scales[g];
    }
    return;
  }
  for (uint64_t begin = 0; begin < cols; begin += group_cols, ++scales, ++zeros) {
    const float scale = *scales, zero = *zeros;
    const uint64_t end = std::min(cols, begin + group_cols);
    for (uint64_t i = begin; i < end; ++i) values[i] = (values[i] - zero) * scale;
  }
}

absl::Status CheckGroupSize(const PackedParts& parts, uint64_t group) {
  if (group > 0 && group <= parts.cols && parts.cols % group == 0) return absl::OkStatus();
  return QuantizationError(parts, *parts.codes,
                           "has " + std::to_string(parts.cols) + " inputs, which groups of " +
                               std::to_string(group) +
                               " (group_size in config.json) do not divide");
}

absl::StatusOr<std::vector<int32_t>> ReadGroupIndex(const PackedParts& parts, uint64_t groups) {
  const TensorView& view = *parts.group_index;
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, view, DType::kI32, {parts.cols}));
  std::vector<int32_t> index(parts.cols);
  uint64_t unset = 0;
  for (uint64_t i = 0; i < parts.cols; ++i) {
    index[i] = Load<int32_t>(view.bytes.data() + 4 * i);
    if (index[i] == -1) ++unset;
  }
  if (unset == parts.cols) return std::vector<int32_t>();
  for (uint64_t i = 0; i < parts.cols; ++i) {
    if (index[i] >= 0 && static_cast<uint64_t>(index[i]) < groups) continue;
    return QuantizationError(parts, view,
                             "sends input " + std::to_string(i) + " to group " +
                                 std::to_string(index[i]) + " of " + std::to_string(groups));
  }
  return index;
}

}  // namespace assay
