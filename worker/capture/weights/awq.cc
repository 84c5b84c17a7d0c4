#include "worker/capture/weights/awq.h"

#include <algorithm>
#include <utility>

#include "storage/base/macros.h"
#include "worker/capture/weights/load.h"
#include "worker/capture/weights/transposed_scales.h"

namespace assay {
namespace {

constexpr uint64_t kPerWord = 8;
constexpr int kNibble[kPerWord] = {0, 4, 1, 5, 2, 6, 3, 7};

class Awq : public PackedTensor {
 public:
  Awq(const PackedParts& parts, uint64_t group, std::string format)
      : PackedTensor(std::move(format), parts.bytes()),
        rows_(parts.rows),
        cols_(parts.cols),
        group_(group),
        codes_(*parts.codes),
        zeros_(*parts.zeros),
        scales_(*parts.scales) {}

  void Decode(uint64_t row_begin, uint64_t row_end, float* out) const override {
    const uint64_t count = row_end - row_begin, groups = cols_ / group_;
    std::vector<float> scales(count * groups), zeros(count * groups);
    TransposedScales(scales_, rows_, row_begin, count, groups, scales.data());
    Unpack(zeros_, groups, row_begin, row_end, zeros.data());
    Unpack(codes_, cols_, row_begin, row_end, out);
    for (uint64_t r = 0; r < count; ++r) {
      ScaleCodes(&scales[r * groups], &zeros[r * groups], group_, nullptr, cols_, out + r * cols_);
    }
  }

 private:
  // Outputs [row_begin, row_end) of a packed matrix of `depth` stored rows, as out[row][depth].
  void Unpack(const TensorView& packed, uint64_t depth, uint64_t row_begin, uint64_t row_end,
              float* out) const {
    const uint64_t words = rows_ / kPerWord;
    std::vector<uint32_t> column(depth);
    for (uint64_t row = row_begin; row < row_end;) {
      const uint64_t word = row / kPerWord, end = std::min(row_end, (word + 1) * kPerWord);
      for (uint64_t i = 0; i < depth; ++i)
        column[i] = Load<uint32_t>(packed.bytes.data() + 4 * (i * words + word));
      for (; row < end; ++row, out += depth) {
        const int shift = 4 * kNibble[row % kPerWord];
        for (uint64_t i = 0; i < depth; ++i)
          out[i] = static_cast<float>(static_cast<int32_t>((column[i] >> shift) & 15));
      }
    }
  }

  const uint64_t rows_, cols_, group_;
  const TensorView codes_, zeros_, scales_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PackedTensor>> MakeAwq(const PackedParts& parts, uint64_t group) {
  if (group == 0) group = parts.cols;
  if (parts.rows % kPerWord != 0) {
    return QuantizationError(
        parts, *parts.codes,
        "cannot hold " + std::to_string(parts.rows) + " outputs: they must be a multiple of 8");
  }
  ASSAY_RETURN_IF_ERROR(CheckGroupSize(parts, group));
  const uint64_t groups = parts.cols / group, words = parts.rows / kPerWord;
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.codes, DType::kI32, {parts.cols, words}));
  if (parts.zeros == nullptr) return QuantizationMissing(parts, "qzeros");
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.zeros, DType::kI32, {groups, words}));
  ASSAY_RETURN_IF_ERROR(CheckTransposedScales(parts, groups));
  return std::make_unique<Awq>(parts, group, "AWQ int4, groups of " + std::to_string(group));
}

}  // namespace assay
