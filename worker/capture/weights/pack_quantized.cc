#include "worker/capture/weights/pack_quantized.h"

#include <utility>

#include "storage/base/macros.h"
#include "worker/capture/weights/bit_stream.h"
#include "worker/capture/weights/load.h"

namespace assay {
namespace {

class PackQuantized : public PackedTensor {
 public:
  PackQuantized(const PackedParts& parts, const IntegerScheme& scheme, ScaleGrid scales,
                std::vector<int32_t> index, std::string format)
      : PackedTensor(std::move(format), parts.bytes()),
        cols_(parts.cols),
        bits_(scheme.bits),
        codes_(*parts.codes),
        scales_(std::move(scales)),
        index_(std::move(index)) {
    if (!scheme.symmetric) zeros_ = *parts.zeros;
  }

  void Decode(uint64_t row_begin, uint64_t row_end, float* out) const override {
    const uint64_t row_bytes = 4 * BitStreamWords(cols_, bits_);
    std::vector<float> scales(scales_.groups()), zeros(scales_.groups());
    for (uint64_t row = row_begin; row < row_end; ++row, out += cols_) {
      UnpackBits(codes_.bytes.data() + row * row_bytes, bits_, cols_, out);
      scales_.Row(row, scales.data());
      for (uint64_t g = 0; g < zeros.size(); ++g) zeros[g] = Zero(row, g);
      ScaleCodes(scales.data(), zeros.data(), scales_.group_cols(),
                 index_.empty() ? nullptr : index_.data(), cols_, out);
    }
  }

 private:
  // The zero point, biased as the codes are.
  float Zero(uint64_t row, uint64_t group) const {
    if (zeros_.bytes.empty()) return static_cast<float>(1 << (bits_ - 1));
    const uint64_t bit = row * static_cast<uint64_t>(bits_), shift = bit % 32;
    const auto word = [&](uint64_t w) -> uint64_t {
      return Load<uint32_t>(zeros_.bytes.data() + 4 * (w * scales_.groups() + group));
    };
    uint64_t value = word(bit / 32) >> shift;
    if (shift + static_cast<uint64_t>(bits_) > 32) value |= word(bit / 32 + 1) << (32 - shift);
    return static_cast<float>(value & ((1u << bits_) - 1));
  }

  const uint64_t cols_;
  const int bits_;
  const TensorView codes_;
  const ScaleGrid scales_;
  const std::vector<int32_t> index_;  // empty: groups follow each other
  TensorView zeros_;                  // no bytes: symmetric
};

absl::Status CheckZeros(const PackedParts& parts, const IntegerScheme& scheme, uint64_t groups) {
  if (scheme.symmetric) {
    if (parts.zeros == nullptr) return absl::OkStatus();
    return QuantizationError(parts, *parts.zeros,
                             "holds zero points, which config.json says there are none of "
                             "(symmetric)");
  }
  if (parts.zeros == nullptr) return QuantizationMissing(parts, "weight_zero_point");
  return CheckPart(parts, *parts.zeros, DType::kI32,
                   {BitStreamWords(parts.rows, scheme.bits), groups});
}

std::string Describe(const IntegerScheme& scheme, uint64_t cols, bool index) {
  std::string out = "pack-quantized int" + std::to_string(scheme.bits);
  if (scheme.block.cols != 0 && scheme.block.cols != cols)
    out += ", groups of " + std::to_string(scheme.block.cols);
  if (!scheme.symmetric) out += ", zero points";
  if (index) out += ", activation order";
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedTensor>> MakePackQuantized(const PackedParts& parts,
                                                                const IntegerScheme& scheme) {
  const uint64_t words = BitStreamWords(parts.cols, scheme.bits);
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.codes, DType::kI32, {parts.rows, words}));
  if (scheme.block.cols != 0) ASSAY_RETURN_IF_ERROR(CheckGroupSize(parts, scheme.block.cols));
  ASSAY_ASSIGN_OR_RETURN(ScaleGrid scales, ScaleGrid::Make(parts, scheme.block));
  ASSAY_RETURN_IF_ERROR(CheckZeros(parts, scheme, scales.groups()));
  std::vector<int32_t> index;
  if (parts.group_index != nullptr) {
    ASSAY_ASSIGN_OR_RETURN(index, ReadGroupIndex(parts, scales.groups()));
  }
  std::string format = Describe(scheme, parts.cols, !index.empty());
  return std::make_unique<PackQuantized>(parts, scheme, std::move(scales), std::move(index),
                                         std::move(format));
}

}  // namespace assay
