// The only source of chance in a simulation.

#ifndef ASSAY_TESTS_SIM_RANDOM_H_
#define ASSAY_TESTS_SIM_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <random>

namespace assay::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // 0 to n - 1; the same numbers on every platform.
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(engine_() % n); }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<size_t>(high - low) + 1));
  }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_RANDOM_H_
