#include "worker/capture/weights/fp4_packed.h"

#include <cmath>
#include <utility>

#include "storage/base/macros.h"
#include "worker/capture/weights/elements.h"
#include "worker/capture/weights/load.h"

namespace assay {
namespace {

class Fp4Packed : public PackedTensor {
 public:
  Fp4Packed(const PackedParts& parts, Fp4Format kind, float global, ScaleGrid scales,
            std::string name)
      : PackedTensor(std::move(name), parts.bytes()),
        cols_(parts.cols),
        kind_(kind),
        global_(global),
        codes_(*parts.codes),
        scales_(std::move(scales)) {}

  void Decode(uint64_t row_begin, uint64_t row_end, float* out) const override {
    std::vector<float> scales(scales_.groups());
    for (uint64_t row = row_begin; row < row_end; ++row, out += cols_) {
      const uint8_t* in = codes_.bytes.data() + row * (cols_ / 2);
      for (uint64_t i = 0; i < cols_ / 2; ++i)
        std::memcpy(out + 2 * i, kE2M1Pairs[in[i]].data(), 2 * sizeof(float));
      scales_.Row(row, scales.data());
      for (float& scale : scales) scale = GroupScale(scale);
      ScaleRow(scales.data(), scales_.group_cols(), cols_, out);
    }
  }

 private:
  float GroupScale(float scale) const {
    if (kind_ == Fp4Format::kNvfp4) return scale / global_;
    return kind_ == Fp4Format::kModelOptNvfp4 ? scale * global_ : scale;
  }

  const uint64_t cols_;
  const Fp4Format kind_;
  const float global_;
  const TensorView codes_;
  const ScaleGrid scales_;
};

absl::StatusOr<float> ReadGlobal(const PackedParts& parts) {
  if (parts.global_scale == nullptr) return QuantizationMissing(parts, "global scale");
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.global_scale, DType::kF32, {1}));
  const float value = Load<float>(parts.global_scale->bytes.data());
  if (!std::isfinite(value) || value <= 0)
    return QuantizationError(parts, *parts.global_scale, "is not a positive number");
  return value;
}

// gpt-oss stacks experts in leading dimensions and keeps groups in one of their own: the same bytes
// as [rows, cols / 2] and [rows, groups].
absl::Status Flatten(PackedParts& parts, TensorView& codes, TensorView& scales) {
  if (parts.scales == nullptr) return QuantizationMissing(parts, "scales");
  codes = *parts.codes;
  scales = *parts.scales;
  std::vector<uint64_t> grouped = scales.shape;
  grouped.push_back(16);
  const bool fits = codes.shape == grouped && scales.shape.size() >= 2 &&
                    scales.shape.back() == parts.cols / 32 &&
                    scales.elements() == parts.rows * (parts.cols / 32);
  if (!fits) {
    return QuantizationError(parts, codes,
                             "is " + ShapeText(codes.shape) + " with scales of " +
                                 ShapeText(scales.shape) + ", which are no blocks of a matrix of " +
                                 ShapeText({parts.rows, parts.cols}));
  }
  codes.shape = {parts.rows, parts.cols / 2};
  scales.shape = {parts.rows, parts.cols / 32};
  parts.codes = &codes;
  parts.scales = &scales;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedTensor>> MakeFp4Packed(const PackedParts& given,
                                                            Fp4Format format) {
  PackedParts parts = given;
  TensorView codes, scales;
  const bool nvfp4 = format == Fp4Format::kNvfp4 || format == Fp4Format::kModelOptNvfp4;
  const uint64_t group = nvfp4 ? 16 : 32;
  ASSAY_RETURN_IF_ERROR(CheckGroupSize(parts, group));
  if (format == Fp4Format::kMxfp4Blocks) ASSAY_RETURN_IF_ERROR(Flatten(parts, codes, scales));
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.codes, DType::kU8, {parts.rows, parts.cols / 2}));
  ASSAY_ASSIGN_OR_RETURN(ScaleGrid grid, ScaleGrid::Make(parts, {1, group}));
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.scales, nvfp4 ? DType::kF8E4M3 : DType::kU8,
                                  {parts.rows, parts.cols / group}));
  float global = 1;
  if (nvfp4) {
    ASSAY_ASSIGN_OR_RETURN(global, ReadGlobal(parts));
  }
  constexpr const char* kNames[] = {"nvfp4-pack-quantized", "ModelOpt NVFP4",
                                    "mxfp4-pack-quantized", "MXFP4 blocks"};
  return std::make_unique<Fp4Packed>(parts, format, global, std::move(grid),
                                     kNames[static_cast<int>(format)]);
}

}  // namespace assay
