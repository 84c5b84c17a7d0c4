// The metric once more, straight from its definitions in 113-bit arithmetic: what tests compare
// with. Shares nothing with the product.

#ifndef ASSAY_WORKER_REPLAY_QUAD_REFERENCE_H_
#define ASSAY_WORKER_REPLAY_QUAD_REFERENCE_H_

#include <array>
#include <cstdint>
#include <span>

namespace assay {

using Quad = __float128;

Quad QuadExp(Quad x);
Quad QuadExpm1(Quad x);
Quad QuadLog(Quad x);
Quad QuadLog1p(Quad x);
Quad QuadTanh(Quad x);

// |got - want| in units in the last place of fp64 at `want` (at least the smallest normal number);
// infinite for a NaN. want = 0 asks for exactly 0.
double UlpError(double got, Quad want);

// One position. Both rows are what the model calls logits; a cap > 0 is applied to each. `token`
// < 0: no observed token.
struct QuadRow {
  // In the order of kReplayF64Names and kReplayI32Names.
  std::array<Quad, 9> f64;
  std::array<int64_t, 5> i32;
};
QuadRow QuadMetric(std::span<const double> ref, std::span<const double> cand, double cap,
                   int64_t token);
// The same with elementary functions in 80 bits, ten times as fast: each term is good to about
// 1e-18, sums are as exact as above.
QuadRow LongMetric(std::span<const double> ref, std::span<const double> cand, double cap,
                   int64_t token);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_QUAD_REFERENCE_H_
