// The two metric passes over one leaf of one row, as kThreads threads share it out.
//
// Thread t sees columns t, t + kThreads, ... in that order and keeps its own sums; HalvingTree then
// adds those of all threads in a fixed tree. Nothing depends on when a thread runs, there are no
// atomics, and the host (host_pass.h) executes the same functions in the same order: its bits are
// the GPU's.

#ifndef ASSAY_WORKER_REPLAY_CUDA_LEAF_PASS_H_
#define ASSAY_WORKER_REPLAY_CUDA_LEAF_PASS_H_

#include "worker/replay/cuda/core.h"
#include "worker/replay/kernels.h"

namespace assay::cuda {

constexpr int kThreads = 256;
constexpr int kPerThread = 16;  // columns of a thread
constexpr int kLeafMax = kThreads * kPerThread;

// How the bits of one row's leaf come from fp32 products: logit = softcap(scale * x + bias), fp64.
struct LogitRule {
  double softcap;     // <= 0: none
  double scale;       // 1: none
  const float* bias;  // of the leaf's first column; null: none
};

// `column` counts within the leaf.
ASSAY_HD double RawLogit(float x, int column, const LogitRule& rule) {
  double value = static_cast<double>(x);
  if (rule.scale != 1.0) value = rule.scale * value;
  if (rule.bias != nullptr) value = value + static_cast<double>(rule.bias[column]);
  return value;
}

template <bool kCap>
ASSAY_HD double Capped(double raw, const LogitRule& rule) {
  return kCap ? CoreSoftcap(raw, rule.softcap) : raw;
}

// A thread's columns; those beyond the last are -inf and never counted.
struct Columns {
  float x[kPerThread];
};

ASSAY_HD Columns LoadColumns(const float* leaf, int columns, int thread) {
  Columns out;
  ASSAY_UNROLL
  for (int j = 0; j < kPerThread; ++j) {
    const int column = thread + j * kThreads;
    out.x[j] = column < columns ? leaf[column] : -static_cast<float>(Infinity());
  }
  return out;
}

// Largest raw logit and the lowest column that is NaN or +inf (kLeafMax: none).
struct Scan {
  double max;
  int bad;
};

ASSAY_HD Scan ScanThread(const Columns& own, int columns, int thread, const LogitRule& rule) {
  Scan out{-Infinity(), kLeafMax};
  ASSAY_UNROLL
  for (int j = 0; j < kPerThread; ++j) {
    const int column = thread + j * kThreads;
    if (column >= columns) continue;
    const double raw = RawLogit(own.x[j], column, rule);
    if (!(raw < Infinity())) {
      out.bad = column < out.bad ? column : out.bad;
    } else if (raw > out.max) {
      out.max = raw;
    }
  }
  return out;
}

ASSAY_HD Scan Merge(const Scan& a, const Scan& b) {
  return {a.max > b.max ? a.max : b.max, a.bad < b.bad ? a.bad : b.bad};
}

struct SideSums {
  double tail, weighted;
  int argmax, ties;  // argmax kLeafMax: none
};

// `top` is the leaf's largest logit after the softcap, finite.
template <bool kCap>
ASSAY_HD SideSums SideThread(const Columns& own, int columns, int thread, const LogitRule& rule,
                             double top) {
  SideSums out{0.0, 0.0, kLeafMax, 0};
  ASSAY_UNROLL
  for (int j = 0; j < kPerThread; ++j) {
    const int column = thread + j * kThreads;
    if (column >= columns) continue;
    const double y = Capped<kCap>(RawLogit(own.x[j], column, rule), rule) - top;
    if (y < 0.0) {
      const double e = CoreExp(y);
      out.tail += e;
      out.weighted = fma(e, fmax(y, kExpLowest), out.weighted);
    } else {
      out.argmax = column < out.argmax ? column : out.argmax;
      ++out.ties;
    }
  }
  return out;
}

ASSAY_HD SideSums Merge(const SideSums& a, const SideSums& b) {
  return {a.tail + b.tail, a.weighted + b.weighted, a.argmax < b.argmax ? a.argmax : b.argmax,
          a.ties + b.ties};
}

struct PairTerms {
  double forward, reverse, js, accept, variation;
  int beats, cand_masked, ref_masked;  // masked kLeafMax: none
};

ASSAY_HD PairTerms EmptyPairTerms() { return {0.0, 0.0, 0.0, 0.0, 0.0, 0, kLeafMax, kLeafMax}; }

// Adds column `column` with logits a (reference) and b (candidate). row.threshold_column counts
// within the leaf and may lie outside it.
ASSAY_HD void AddColumn(double a, double b, int column, const PairRow& row, PairTerms* sums) {
  const double x = a - row.max_ref, y = b - row.max_cand;
  const double log_ratio = (x - y) - (row.log_sum_ref - row.log_sum_cand);
  const bool ref_larger = log_ratio >= 0.0;
  const double s = fabs(log_ratio);
  if (b > row.threshold || (b == row.threshold && column < row.threshold_column)) ++sums->beats;
  if (!(s >= 0.0)) return;  // both -inf: NaN, contributes nothing
  const double larger = CoreExp(ref_larger ? x - row.log_sum_ref : y - row.log_sum_cand);
  Divergence d = DivergenceOf(s);
  if (s == Infinity()) {
    int* const masked = ref_larger ? &sums->cand_masked : &sums->ref_masked;
    *masked = column < *masked ? column : *masked;
    d.larger = 0.0;
  }
  sums->forward = fma(larger, ref_larger ? d.larger : d.smaller, sums->forward);
  sums->reverse = fma(larger, ref_larger ? d.smaller : d.larger, sums->reverse);
  sums->js = fma(larger, d.js, sums->js);
  sums->accept = fma(larger, d.t, sums->accept);
  sums->variation = fma(larger, d.u, sums->variation);
}

template <bool kCap>
ASSAY_HD PairTerms PairThread(const float* ref, const float* cand, int columns, int thread,
                              const LogitRule& ref_rule, const LogitRule& cand_rule,
                              const PairRow& row) {
  PairTerms sums = EmptyPairTerms();
  for (int column = thread; column < columns; column += kThreads) {
    AddColumn(Capped<kCap>(RawLogit(ref[column], column, ref_rule), ref_rule),
              Capped<kCap>(RawLogit(cand[column], column, cand_rule), cand_rule), column, row,
              &sums);
  }
  return sums;
}

ASSAY_HD PairTerms Merge(const PairTerms& a, const PairTerms& b) {
  return {a.forward + b.forward,
          a.reverse + b.reverse,
          a.js + b.js,
          a.accept + b.accept,
          a.variation + b.variation,
          a.beats + b.beats,
          a.cand_masked < b.cand_masked ? a.cand_masked : b.cand_masked,
          a.ref_masked < b.ref_masked ? a.ref_masked : b.ref_masked};
}

// Merges n = 2^k values into values[0]: element i takes i + n/2, then the first half likewise. The
// GPU does the same with shuffles inside a warp (n = 32), then over the warps (n = 8).
template <typename T>
ASSAY_HD void HalvingTree(T* values, int n) {
  for (int half = n / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) values[i] = Merge(values[i], values[i + half]);
  }
}

ASSAY_HD SideLeaf FinishSide(const Scan& scan, const SideSums& sums, double top, double observed) {
  if (scan.bad < kLeafMax) return {-Infinity(), 0.0, 0.0, 0.0, -1, 0, scan.bad};
  if (scan.max == -Infinity()) return {-Infinity(), 0.0, 0.0, observed, -1, 0, -1};
  return {top, sums.tail, 0.0 - sums.weighted, observed, sums.argmax, sums.ties, -1};
}

ASSAY_HD PairLeaf FinishPair(const PairTerms& s) {
  return {s.forward,
          s.reverse,
          s.js,
          s.accept,
          s.variation,
          s.beats,
          s.cand_masked < kLeafMax ? s.cand_masked : -1,
          s.ref_masked < kLeafMax ? s.ref_masked : -1};
}

}  // namespace assay::cuda

#endif  // ASSAY_WORKER_REPLAY_CUDA_LEAF_PASS_H_
