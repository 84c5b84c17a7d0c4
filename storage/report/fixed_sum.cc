#include "storage/report/fixed_sum.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>

#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr int kMantissa = 53;
constexpr int kCountBits = 32;

template <typename Limbs>
void Negate(Limbs* limbs) {
  unsigned carry = 1;
  for (uint64_t& limb : *limbs) {
    limb = ~limb + carry;
    carry = carry != 0 && limb == 0 ? 1 : 0;
  }
}

}  // namespace

FixedSums::FixedSums(std::span<const double> values) : values_(values.begin(), values.end()) {
  int least = INT_MAX, most = INT_MIN;
  for (const double value : values_) {
    if (value == 0) continue;
    int exponent;
    std::frexp(value, &exponent);  // |value| < 2^exponent
    least = std::min(least, exponent - kMantissa);
    most = std::max(most, exponent);
  }
  exponent_ = least == INT_MAX ? 0 : least;
  fixed_ = least == INT_MAX ||
           most - least + kCountBits < static_cast<int>(kLimbs) * 64 - 1;  // one bit for the sign
  if (!fixed_) return;
  limbs_.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    Limbs& limbs = limbs_[i];
    limbs = {};
    if (values_[i] == 0) continue;
    int exponent;
    const double fraction = std::frexp(std::fabs(values_[i]), &exponent);
    const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, kMantissa));
    const int shift = exponent - kMantissa - exponent_;
    const auto limb = static_cast<size_t>(shift / 64);
    limbs[limb] = mantissa << (shift % 64);
    if (shift % 64 != 0 && limb + 1 < kLimbs) limbs[limb + 1] = mantissa >> (64 - shift % 64);
    if (values_[i] < 0) Negate(&limbs);
  }
  if (least != INT_MAX && most - least + kCountBits >= 127) return;
  for (const Limbs& limbs : limbs_) {
    narrow_.push_back(
        static_cast<__int128>((static_cast<unsigned __int128>(limbs[1]) << 64) | limbs[0]));
  }
}

void FixedSums::AddEach(std::span<const uint32_t> indices) {
  if (narrow_.empty()) {
    for (const uint32_t index : indices) Add(index);
    return;
  }
  __int128 sum = 0;
  for (const uint32_t index : indices) sum += narrow_[index];
  const Limbs wide = {static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64),
                      sum < 0 ? ~uint64_t{0} : 0};
  AddLimbs(wide);
}

void FixedSums::Start() {
  chosen_.clear();
  total_ = {};
}

double FixedSums::Result() const {
  if (!fixed_) {
    ExactSum sum;
    for (const size_t index : chosen_) sum.Add(values_[index]);
    return sum.Result();
  }
  Limbs magnitude = total_;
  const bool negative = (magnitude[kLimbs - 1] >> 63) != 0;
  if (negative) Negate(&magnitude);
  int top = -1;  // the highest bit that is set
  for (size_t i = 0; i < kLimbs; ++i) {
    if (magnitude[i] != 0) top = static_cast<int>(i) * 64 + 63 - std::countl_zero(magnitude[i]);
  }
  if (top < 0) return 0;
  const auto bits = [&](int from) {  // 64 bits from bit `from` on
    const auto limb = static_cast<size_t>(from / 64);
    uint64_t out = magnitude[limb] >> (from % 64);
    if (from % 64 != 0 && limb + 1 < kLimbs) out |= magnitude[limb + 1] << (64 - from % 64);
    return out;
  };
  const int drop = std::max(0, top + 1 - kMantissa);
  uint64_t mantissa = bits(drop) & ((uint64_t{1} << kMantissa) - 1);
  if (drop > 0) {
    const bool half = (bits(drop - 1) & 1) != 0;
    bool below = false;
    for (int i = 0; i < drop - 1 && !below; i += 64) {
      const int rest = drop - 1 - i;
      const uint64_t piece = bits(i);
      below = (rest >= 64 ? piece : piece & ((uint64_t{1} << rest) - 1)) != 0;
    }
    if (half && (below || (mantissa & 1) != 0)) ++mantissa;
  }
  const double value = std::ldexp(static_cast<double>(mantissa), exponent_ + drop);
  return negative ? -value : value;
}

}  // namespace assay
