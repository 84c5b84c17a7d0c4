#include "worker/replay/cuda/host_pass.h"

namespace assay::cuda {
namespace {

constexpr int kWarp = 32;

// As the GPU reduces a block: each warp, then the warps.
template <typename T>
T ReduceBlock(T* values) {
  T warps[kThreads / kWarp];
  for (int w = 0; w < kThreads / kWarp; ++w) {
    HalvingTree(values + w * kWarp, kWarp);
    warps[w] = values[w * kWarp];
  }
  HalvingTree(warps, kThreads / kWarp);
  return warps[0];
}

template <bool kCap>
SideLeaf Side(const float* leaf, int columns, const LogitRule& rule, int64_t observed) {
  Scan scans[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    scans[t] = ScanThread(LoadColumns(leaf, columns, t), columns, t, rule);
  }
  const Scan scan = ReduceBlock(scans);
  double token = 0;
  if (observed >= 0 && observed < columns) {
    const int at = static_cast<int>(observed);
    token = Capped<kCap>(RawLogit(leaf[at], at, rule), rule);
  }
  if (scan.bad < kLeafMax || scan.max == -Infinity()) return FinishSide(scan, {}, 0, token);
  const double top = Capped<kCap>(scan.max, rule);
  SideSums sums[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    sums[t] = SideThread<kCap>(LoadColumns(leaf, columns, t), columns, t, rule, top);
  }
  return FinishSide(scan, ReduceBlock(sums), top, token);
}

template <bool kCap>
PairLeaf Pair(const float* ref, const float* cand, int columns, const LogitRule& ref_rule,
              const LogitRule& cand_rule, const PairRow& row) {
  PairTerms sums[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    sums[t] = PairThread<kCap>(ref, cand, columns, t, ref_rule, cand_rule, row);
  }
  return FinishPair(ReduceBlock(sums));
}

}  // namespace

SideLeaf HostSide(const float* leaf, int columns, const LogitRule& rule, int64_t observed) {
  return rule.softcap > 0 ? Side<true>(leaf, columns, rule, observed)
                          : Side<false>(leaf, columns, rule, observed);
}

PairLeaf HostPair(const float* ref, const float* cand, int columns, const LogitRule& ref_rule,
                  const LogitRule& cand_rule, const PairRow& row) {
  return ref_rule.softcap > 0 ? Pair<true>(ref, cand, columns, ref_rule, cand_rule, row)
                              : Pair<false>(ref, cand, columns, ref_rule, cand_rule, row);
}

}  // namespace assay::cuda
