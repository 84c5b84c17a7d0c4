#include "worker/capture/weights/plain_quantized.h"

#include <utility>

#include "storage/base/macros.h"
#include "worker/capture/weights/elements.h"

namespace assay {
namespace {

class PlainQuantized : public PackedTensor {
 public:
  PlainQuantized(const PackedParts& parts, ScaleGrid scales, std::string format)
      : PackedTensor(std::move(format), parts.bytes()),
        cols_(parts.cols),
        codes_(*parts.codes),
        scales_(std::move(scales)) {
    if (parts.zeros != nullptr) zeros_ = parts.zeros->bytes;
  }

  void Decode(uint64_t row_begin, uint64_t row_end, float* out) const override {
    const uint64_t groups = scales_.groups();
    std::vector<float> scales(groups), zeros(groups);
    for (uint64_t row = row_begin; row < row_end; ++row, out += cols_) {
      Widen(codes_.bytes.data() + row * cols_, out);
      scales_.Row(row, scales.data());
      if (zeros_.empty()) {
        ScaleRow(scales.data(), scales_.group_cols(), cols_, out);
        continue;
      }
      for (uint64_t g = 0; g < groups; ++g)
        zeros[g] = static_cast<float>(static_cast<int8_t>(zeros_[row * groups + g]));
      ScaleCodes(scales.data(), zeros.data(), scales_.group_cols(), nullptr, cols_, out);
    }
  }

 private:
  void Widen(const uint8_t* in, float* out) const {
    if (codes_.dtype == DType::kI8) {
      for (uint64_t i = 0; i < cols_; ++i) out[i] = static_cast<float>(static_cast<int8_t>(in[i]));
    } else {
      for (uint64_t i = 0; i < cols_; ++i) out[i] = kE4M3[in[i]];
    }
  }

  const uint64_t cols_;
  const TensorView codes_;
  const ScaleGrid scales_;
  std::span<const uint8_t> zeros_;  // int8 [O, groups]; empty: none
};

std::string Describe(const std::string& name, const PackedParts& parts, ScaleBlock block) {
  std::string out = name + (parts.codes->dtype == DType::kI8 ? " int8" : " E4M3");
  if (block.rows > 1 && block.cols > 0) {
    out += ", blocks of " + std::to_string(block.rows) + " x " + std::to_string(block.cols);
  } else if (block.rows == 1 && block.cols > 0) {
    out += ", groups of " + std::to_string(block.cols);
  }
  return parts.zeros == nullptr ? out : out + ", zero points";
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedTensor>> MakePlainQuantized(const PackedParts& parts,
                                                                 ScaleBlock block,
                                                                 const std::string& name) {
  const DType dtype = parts.codes->dtype == DType::kI8 ? DType::kI8 : DType::kF8E4M3;
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.codes, dtype, {parts.rows, parts.cols}));
  if (block.rows == 1 && block.cols != 0) ASSAY_RETURN_IF_ERROR(CheckGroupSize(parts, block.cols));
  ASSAY_ASSIGN_OR_RETURN(ScaleGrid scales, ScaleGrid::Make(parts, block));
  if (parts.zeros != nullptr) {
    if (dtype != DType::kI8 || block.rows != 1)
      return QuantizationError(parts, *parts.zeros, "holds zero points, which this format has not");
    ASSAY_RETURN_IF_ERROR(
        CheckPart(parts, *parts.zeros, DType::kI8, {parts.rows, scales.groups()}));
  }
  return std::make_unique<PlainQuantized>(parts, std::move(scales), Describe(name, parts, block));
}

}  // namespace assay
