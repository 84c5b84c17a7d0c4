// numpy.random.default_rng(seed).integers(0, n), draw for draw, for seeds below 2^64.
//
// Joint statistics of published comparisons depend on it (specs: fidelity-dataset 4.2). Generator:
// PCG64 (O'Neill 2014, XSL-RR output after the step) seeded through numpy's SeedSequence; bounded
// numbers by Lemire's multiplication (2019) on 32-bit halves, the low one first.

#ifndef ASSAY_STORAGE_REPORT_NUMPY_RANDOM_H_
#define ASSAY_STORAGE_REPORT_NUMPY_RANDOM_H_

#include <cstdint>

namespace assay {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);

  uint64_t Word64();
  uint32_t Word32();           // the low half of a Word64, then its high half
  uint32_t Below(uint32_t n);  // integers(0, n), n > 0

 private:
  void Step();

  unsigned __int128 state_ = 0, increment_ = 0;
  uint32_t spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_NUMPY_RANDOM_H_
