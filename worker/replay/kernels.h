// The vector kernels of the metric: one table of functions per instruction set, all giving the same
// bits.
//
// A kernel sees one leaf of one row: contiguous logits, fp32 (policy exact, torch-bf16) or fp64
// (fp64-audit). Columns are numbered within the leaf. Formulas and error bounds: docs/metric.md.

#ifndef ASSAY_WORKER_REPLAY_KERNELS_H_
#define ASSAY_WORKER_REPLAY_KERNELS_H_

#include <stdint.h>

namespace assay {

// What the first pass learns about one leaf of one row. Plain data: it travels between ranks as
// bytes.
struct SideLeaf {
  double max;       // largest logit (after the softcap); -inf when the leaf has no finite column
  double tail;      // sum over columns below max of exp(x - max)
  double weighted;  // the same sum with (max - x) exp(x - max)
  double
      observed;  // logit of the observed token (after the softcap) when it lies in the leaf, else 0
  int64_t argmax;  // lowest column at max; -1 without a finite column
  int64_t ties;    // columns at max
  int64_t
      bad;  // lowest column that is NaN or +inf, -1 when there is none; if set, nothing above is
};

// What the second pass needs of one row of a comparison.
struct PairRow {
  double max_ref, max_cand;          // of the whole row
  double log_sum_ref, log_sum_cand;  // ln sum exp(x - max) >= 0
  double threshold;                  // candidate's logit at the reference's top-1 column
  int64_t threshold_column;  // that column in this leaf's numbering; may be < 0 or >= columns
};

// What the second pass learns about one leaf of one row. All sums have only non-negative terms.
struct PairLeaf {
  double kl_ref_cand;  // nats
  double kl_cand_ref;  // nats
  double jsd;          // 1/2 sum m f(L), nats
  double accept;       // sum min(p, q)
  double variation;    // sum |p - q|
  int64_t beats;  // candidate columns that beat the threshold (greater, or equal with a lower id)
  int64_t cand_masked;  // lowest column where only the candidate is -inf; -1 when there is none
  int64_t ref_masked;   // lowest column where only the reference is -inf; -1 when there is none
};

// Bounds of the functions below, in units in the last place; replay_elementary_test asserts them.
inline constexpr double kExpUlpMax = 1.25;
inline constexpr double kExpTermUlpMax = 0.31;  // for each unit of |x|
inline constexpr double kExpSplitUlpMax = 2.0;
inline constexpr double kLog1pUlpMax = 3.0;
inline constexpr double kSoftcapUlpMax = 5.0;

struct ReplayKernels {
  const char* isa;  // "avx512", "avx2", "portable"; not part of the bits
  // softcap <= 0 means none. observed < 0 or >= columns: not in this leaf. `ahead` (may be null):
  // from there on as many bytes as the row has are brought into the second-level cache meanwhile,
  // as a hint; they are not read and need not exist.
  void (*side_f32)(const float* x, int64_t columns, double softcap, int64_t observed,
                   const void* ahead, SideLeaf* out);
  void (*side_f64)(const double* x, int64_t columns, double softcap, int64_t observed,
                   const void* ahead, SideLeaf* out);
  void (*pair_f32)(const float* ref, const float* cand, int64_t columns, double softcap,
                   const PairRow& row, PairLeaf* out);
  void (*pair_f64)(const double* ref, const double* cand, int64_t columns, double softcap,
                   const PairRow& row, PairLeaf* out);
  // exp(x), x <= 0; 0 below -708. kExpUlpMax.
  double (*exp)(double x);
  // exp(x), -708 <= x <= 0, as the terms of sums take it. kExpUlpMax + kExpTermUlpMax |x|.
  double (*exp_term)(double x);
  // t = exp(-s) and 1 - t without cancellation, s >= 0. kExpSplitUlpMax each.
  void (*exp_split)(double s, double* t, double* one_minus_t);
  // ln(1 + x), x >= 0. kLog1pUlpMax.
  double (*log1p)(double x);
  // cap * tanh(x / cap), cap > 0. kSoftcapUlpMax.
  double (*softcap)(double x, double cap);
  // Sum of h[i] * w[i] over bf16 values, eight fp64 lanes: products are exact, sums round.
  double (*dot_bf16)(const uint16_t* h, const uint16_t* w, int64_t n);
};

// The fastest table that this CPU runs.
const ReplayKernels& Kernels();
// Every table that this CPU runs, fastest first: for tests. `count` receives their number.
const ReplayKernels* const* AllKernels(int* count);
// Makes Kernels() give `table` from now on, null for the fastest again: for tests that have no
// other work running.
void UseKernels(const ReplayKernels* table);

inline constexpr const char* kKernelsVersion = "vec8/3";

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_KERNELS_H_
