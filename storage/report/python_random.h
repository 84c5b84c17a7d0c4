// CPython's random.Random(seed) for non-negative integer seeds, draw for draw.
//
// Published bootstrap intervals, orders and samples depend on it (specs: qwen-suites 0.4).
// Generator: MT19937 seeded by init_by_array (Matsumoto and Nishimura, 2002), which is not how
// std::mt19937 seeds itself.

#ifndef ASSAY_STORAGE_REPORT_PYTHON_RANDOM_H_
#define ASSAY_STORAGE_REPORT_PYTHON_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace assay {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  uint32_t Word();                                       // one tempered output word
  uint32_t GetRandBits(int k);                           // 1 <= k <= 32: the top k bits of one word
  void GetRandBitsEach(int k, std::span<uint32_t> out);  // GetRandBits(k) for each of `out`
  uint32_t RandBelow(uint32_t n);                        // randrange(n); n > 0
  // RandBelow(n) for each of `out`, and the state afterwards is the same; several times as fast.
  void RandBelowEach(uint32_t n, std::span<uint32_t> out);
  double Random();  // [0, 1), 53 bits

  // choices(range(n), k=k).
  std::vector<uint32_t> ChoiceIndices(uint32_t n, uint32_t k);
  // Positions that sample(population of n, k) takes, in order; k <= n.
  std::vector<uint32_t> SampleIndices(uint32_t n, uint32_t k);

  template <typename T>
  void Shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i-- > 1;) {
      std::swap((*items)[i], (*items)[RandBelow(static_cast<uint32_t>(i + 1))]);
    }
  }

 private:
  static constexpr int kWords = 624;
  void SeedBase(uint32_t seed);
  void Refill();

  std::array<uint32_t, kWords> state_;
  int next_ = kWords;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PYTHON_RANDOM_H_
