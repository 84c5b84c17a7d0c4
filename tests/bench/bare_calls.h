// The exp and log of the metric by themselves: the least that its passes could cost.

#ifndef ASSAY_TESTS_BENCH_BARE_CALLS_H_
#define ASSAY_TESTS_BENCH_BARE_CALLS_H_

#include <stdint.h>

namespace assay::bench {

struct BareCalls {
  const char* isa;  // as ReplayKernels::isa
  // Sums of exp(x), x in [-700, 0], and of ln(1 + x), x in [0, 1/e]. `columns` is a multiple of 16.
  double (*sum_exp)(const float* x, int64_t columns);
  double (*sum_log1p)(const float* x, int64_t columns);
};

// For the instruction set that this CPU's kernels use.
const BareCalls& Bare(const char* isa);

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_BARE_CALLS_H_
