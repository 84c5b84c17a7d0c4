#include "worker/capture/weights/gptq.h"

#include <algorithm>
#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/load.h"
#include "worker/capture/weights/transposed_scales.h"

namespace assay {
namespace {

uint32_t Word(const TensorView& view, uint64_t index) {
  return Load<uint32_t>(view.bytes.data() + 4 * index);
}

// Zero point `output` of one group: a stream of `bits` bits for each output, over words.
uint32_t StoredZero(const TensorView& view, uint64_t group, uint64_t words, uint64_t output,
                    uint64_t bits) {
  const uint64_t bit = output * bits, at = group * words + bit / 32, shift = bit % 32;
  uint64_t both = Word(view, at);
  if (shift + bits > 32) both |= uint64_t{Word(view, at + 1)} << 32;
  return static_cast<uint32_t>(both >> shift) & ((1u << bits) - 1);
}

class Gptq : public PackedTensor {
 public:
  Gptq(const PackedParts& parts, const GptqScheme& scheme, uint64_t group,
       std::vector<int32_t> index, std::string format)
      : PackedTensor(std::move(format), parts.bytes()),
        rows_(parts.rows),
        cols_(parts.cols),
        group_(group),
        scheme_(scheme),
        codes_(*parts.codes),
        scales_(*parts.scales),
        index_(std::move(index)) {
    if (!scheme.symmetric) zeros_ = *parts.zeros;
  }

  void Decode(uint64_t row_begin, uint64_t row_end, float* out) const override {
    const uint64_t count = row_end - row_begin, groups = cols_ / group_;
    // Words of one output lie a whole stored row apart, so neighbouring outputs are taken together.
    Codes(row_begin, count, out);
    std::vector<float> scales(count * groups), zeros(count * groups);
    TransposedScales(scales_, rows_, row_begin, count, groups, scales.data());
    Zeros(row_begin, count, groups, zeros.data());
    for (uint64_t r = 0; r < count; ++r) {
      ScaleCodes(&scales[r * groups], &zeros[r * groups], group_,
                 index_.empty() ? nullptr : index_.data(), cols_, out + r * cols_);
    }
  }

 private:
  void Codes(uint64_t row_begin, uint64_t count, float* out) const {
    switch (scheme_.bits) {
      case 2:
        return CodesOf<2>(row_begin, count, out);
      case 3:
        return CodesOf3(row_begin, count, out);
      case 4:
        return CodesOf<4>(row_begin, count, out);
      default:
        return CodesOf<8>(row_begin, count, out);
    }
  }

  template <int kBits>
  void CodesOf(uint64_t row_begin, uint64_t count, float* out) const {
    constexpr uint64_t kPerWord = 32 / kBits;
    for (uint64_t w = 0; w < cols_ / kPerWord; ++w) {
      for (uint64_t r = 0; r < count; ++r) {
        const uint32_t word = Word(codes_, w * rows_ + row_begin + r);
        float* at = out + r * cols_ + w * kPerWord;
        for (uint64_t k = 0; k < kPerWord; ++k) {
          at[k] =
              static_cast<float>(static_cast<int32_t>((word >> (k * kBits)) & ((1u << kBits) - 1)));
        }
      }
    }
  }

  // 32 values in three words; two of them lie across a border.
  void CodesOf3(uint64_t row_begin, uint64_t count, float* out) const {
    for (uint64_t block = 0; block < cols_ / 32; ++block) {
      for (uint64_t r = 0; r < count; ++r) {
        const uint64_t at = 3 * block * rows_ + row_begin + r;
        const uint64_t low = Word(codes_, at) | uint64_t{Word(codes_, at + rows_)} << 32;
        const uint64_t high = low >> 63 | uint64_t{Word(codes_, at + 2 * rows_)} << 1;
        float* to = out + r * cols_ + 32 * block;
        for (uint64_t k = 0; k < 21; ++k) to[k] = static_cast<float>((low >> (3 * k)) & 7);
        for (uint64_t k = 21; k < 32; ++k) to[k] = static_cast<float>((high >> (3 * k - 63)) & 7);
      }
    }
  }

  void Zeros(uint64_t row_begin, uint64_t count, uint64_t groups, float* out) const {
    if (scheme_.symmetric) {
      std::fill(out, out + count * groups, static_cast<float>(1 << (scheme_.bits - 1)));
      return;
    }
    const uint64_t bits = static_cast<uint64_t>(scheme_.bits);
    const uint64_t words = rows_ * bits / 32;
    const uint32_t plus = scheme_.zero_plus_one ? 1 : 0;
    for (uint64_t r = 0; r < count; ++r) {
      for (uint64_t g = 0; g < groups; ++g) {
        const uint32_t stored = StoredZero(zeros_, g, words, row_begin + r, bits);
        out[r * groups + g] = static_cast<float>(stored + plus);
      }
    }
  }

  const uint64_t rows_, cols_, group_;
  const GptqScheme scheme_;
  const TensorView codes_, scales_;
  const std::vector<int32_t> index_;  // empty: groups follow each other
  TensorView zeros_;                  // no bytes: symmetric
};

// Looks at every stored zero point once; they are 1/group of the codes.
absl::Status CheckZeroValues(const PackedParts& parts, const GptqScheme& scheme, uint64_t groups) {
  const auto bits = static_cast<uint64_t>(scheme.bits);
  const uint32_t mask = (1u << scheme.bits) - 1, middle = 1u << (scheme.bits - 1);
  if (!scheme.symmetric && !scheme.zero_plus_one) return absl::OkStatus();
  for (uint64_t g = 0; g < groups; ++g) {
    for (uint64_t output = 0; output < parts.rows; ++output) {
      const uint32_t stored = StoredZero(*parts.zeros, g, parts.rows * bits / 32, output, bits);
      if (scheme.symmetric && stored != middle && stored != middle - 1) {
        return QuantizationError(parts, *parts.zeros,
                                 "holds the zero point " + std::to_string(stored) +
                                     " although config.json says \"sym\": true");
      }
      if (scheme.symmetric || stored != mask) continue;
      return InvalidError("GPTQ_ZERO_AMBIGUOUS",
                          parts.file + ": tensor \"" + parts.zeros->name +
                              "\" stores the zero point " + std::to_string(stored) +
                              ", which decoders of GPTQ version 1 read as " +
                              std::to_string(mask + 1) +
                              " or as 0; convert the model to gptq_v2, or capture it with the "
                              "engine that serves it");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckZeros(const PackedParts& parts, const GptqScheme& scheme, uint64_t groups) {
  if (parts.zeros == nullptr)
    return scheme.symmetric ? absl::OkStatus() : QuantizationMissing(parts, "qzeros");
  ASSAY_RETURN_IF_ERROR(CheckPart(parts, *parts.zeros, DType::kI32,
                                  {groups, parts.rows * static_cast<uint64_t>(scheme.bits) / 32}));
  return CheckZeroValues(parts, scheme, groups);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedTensor>> MakeGptq(const PackedParts& parts,
                                                       const GptqScheme& scheme) {
  // As many values as fill whole words.
  const auto bits = static_cast<uint64_t>(scheme.bits);
  const uint64_t unit = scheme.bits == 3 ? 32 : 32 / bits;
  if (parts.rows % unit != 0 || parts.cols % unit != 0) {
    return QuantizationError(parts, *parts.codes,
                             "cannot hold a matrix of " + ShapeText({parts.rows, parts.cols}) +
                                 ": both sizes must be multiples of " + std::to_string(unit));
  }
  const uint64_t group = scheme.group == 0 ? parts.cols : scheme.group;
  ASSAY_RETURN_IF_ERROR(CheckGroupSize(parts, group));
  const uint64_t groups = parts.cols / group;
  ASSAY_RETURN_IF_ERROR(
      CheckPart(parts, *parts.codes, DType::kI32, {parts.cols * bits / 32, parts.rows}));
  ASSAY_RETURN_IF_ERROR(CheckTransposedScales(parts, groups));
  ASSAY_RETURN_IF_ERROR(CheckZeros(parts, scheme, groups));
  std::vector<int32_t> index;
  if (parts.group_index != nullptr) {
    ASSAY_ASSIGN_OR_RETURN(index, ReadGroupIndex(parts, groups));
  }
  // Natural order is what groups that follow each other give, only slower.
  bool natural = true;
  for (uint64_t i = 0; i < index.size() && natural; ++i)
    natural = static_cast<uint64_t>(index[i]) == i / group;
  if (natural) index.clear();
  std::string format = "GPTQ int" + std::to_string(scheme.bits);
  if (groups > 1) format += ", groups of " + std::to_string(group);
  if (!scheme.symmetric) format += ", zero points";
  if (!natural) format += ", activation order";
  return std::make_unique<Gptq>(parts, scheme, group, std::move(index), std::move(format));
}

}  // namespace assay
