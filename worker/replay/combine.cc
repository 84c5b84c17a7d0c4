#include "worker/replay/combine.h"

#include <cmath>

namespace assay {

double TreeSum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  const size_t half = values.size() / 2;
  return TreeSum(values.first(half)) + TreeSum(values.subspan(half));
}

SideRow CombineSide(const std::vector<Leaf>& leaves, std::span<const SideLeaf> partials,
                    int64_t observed) {
  SideRow row;
  row.max = -INFINITY;
  for (size_t l = 0; l < leaves.size(); ++l) {
    const SideLeaf& p = partials[l];
    const auto begin = static_cast<int64_t>(leaves[l].begin);
    if (p.bad >= 0) {
      row.bad = begin + p.bad;
      return row;
    }
    if (observed >= begin && observed < static_cast<int64_t>(leaves[l].end)) {
      row.observed = p.observed;
    }
    if (p.max > row.max) {
      row.max = p.max;
      row.argmax = begin + p.argmax;
      row.ties = 0;
    }
    if (p.argmax >= 0 && p.max == row.max) row.ties += p.ties;
  }
  if (row.argmax < 0) return row;
  // A leaf's columns at its own maximum belong to the row's tail unless that is the row's maximum;
  // of those, all but the winner are counted as exact ones. So a tail of 1e-20 beside a winner of 1
  // keeps its digits.
  std::vector<double> tails(leaves.size()), weighted(leaves.size());
  for (size_t l = 0; l < leaves.size(); ++l) {
    const SideLeaf& p = partials[l];
    if (p.argmax < 0) continue;
    const double below = row.max - p.max;
    const double weight = Kernels().exp(-below);
    const double own = p.max == row.max ? p.tail : p.tail + static_cast<double>(p.ties);
    tails[l] = weight * own;
    weighted[l] = weight > 0 ? weight * (p.weighted + own * below) : 0;
  }
  const double tail = TreeSum(tails) + static_cast<double>(row.ties - 1);
  row.log_sum = Kernels().log1p(tail);
  row.entropy = row.log_sum + TreeSum(weighted) / (1.0 + tail);
  return row;
}

PairSums CombinePair(const std::vector<Leaf>& leaves, std::span<const PairLeaf> partials) {
  PairSums out;
  std::vector<double> values(leaves.size());
  const auto sum = [&](double PairLeaf::*field) {
    for (size_t l = 0; l < leaves.size(); ++l) values[l] = partials[l].*field;
    return TreeSum(values);
  };
  out.kl_ref_cand = sum(&PairLeaf::kl_ref_cand);
  out.kl_cand_ref = sum(&PairLeaf::kl_cand_ref);
  out.jsd = sum(&PairLeaf::jsd);
  out.accept = sum(&PairLeaf::accept);
  out.variation = sum(&PairLeaf::variation);
  for (size_t l = 0; l < leaves.size(); ++l) {
    const PairLeaf& p = partials[l];
    const auto begin = static_cast<int64_t>(leaves[l].begin);
    out.beats += p.beats;
    if (out.cand_masked < 0 && p.cand_masked >= 0) out.cand_masked = begin + p.cand_masked;
    if (out.ref_masked < 0 && p.ref_masked >= 0) out.ref_masked = begin + p.ref_masked;
  }
  return out;
}

}  // namespace assay
