// Exactly rounded sums of many small selections from one list of doubles, such as a bootstrap's
// resamples: what ExactSum gives, by integer additions.
//
// Every value is held as an integer multiple of one power of two, so adding is three machine
// additions and nothing is rounded before the end. Lists whose values lie too far apart for that
// are summed by ExactSum instead; the answer is the same.

#ifndef ASSAY_STORAGE_REPORT_FIXED_SUM_H_
#define ASSAY_STORAGE_REPORT_FIXED_SUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace assay {

class FixedSums {
 public:
  // `values` are finite. At most 2^32 - 1 of them are added between two Start calls.
  explicit FixedSums(std::span<const double> values);

  void Start();
  void Add(size_t index) {  // values[index]
    if (!fixed_) return chosen_.push_back(index);
    AddLimbs(limbs_[index]);
  }
  // Add for each index; several times as fast for values that are near enough to one another for
  // two machine words to hold their sums.
  void AddEach(std::span<const uint32_t> indices);
  // The sum of what was added since Start, rounded once, half to even.
  double Result() const;

  bool fixed() const { return fixed_; }  // for tests

 private:
  static constexpr size_t kLimbs = 3;
  using Limbs = std::array<uint64_t, kLimbs>;
  void AddLimbs(const Limbs& value) {
    unsigned carry = 0;
    for (size_t i = 0; i < kLimbs; ++i) {
      const auto wide =
          static_cast<unsigned __int128>(total_[i]) + value[i] + carry;  // two's complement
      total_[i] = static_cast<uint64_t>(wide);
      carry = static_cast<unsigned>(wide >> 64);
    }
  }

  std::vector<double> values_;
  std::vector<Limbs> limbs_;      // values_ / 2^exponent_
  std::vector<__int128> narrow_;  // the same; empty where sums need the third limb
  std::vector<size_t> chosen_;    // only when not fixed_
  Limbs total_{};
  int exponent_ = 0;
  bool fixed_ = false;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_FIXED_SUM_H_
