#include "worker/replay/torch_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr float kLeastProbability = 1e-30f;
constexpr float kNone = -std::numeric_limits<float>::infinity();

double Exp(double x) { return x <= 0 ? Kernels().exp(x) : 1.0 / Kernels().exp(-x); }

// x is positive and normal.
double Log(double x) {
  int exponent;
  const double mantissa = std::frexp(x, &exponent) * 2;  // 1 to 2
  return Kernels().log1p(mantissa - 1) + (exponent - 1) * kLn2;
}

// Leaves [begin, end) are one chunk.
float ChunkLogSum(std::span<const SideLeaf> leaves) {
  double max = kNone;
  for (const SideLeaf& leaf : leaves) max = std::max(max, leaf.max);
  if (!std::isfinite(max)) return kNone;
  std::vector<double> sums;
  for (const SideLeaf& leaf : leaves) {
    const double own = leaf.tail + static_cast<double>(leaf.ties);
    sums.push_back(leaf.argmax < 0 ? 0.0 : Exp(leaf.max - max) * own);
  }
  const auto sum = static_cast<float>(TreeSum(sums));
  return static_cast<float>(max) + static_cast<float>(Log(sum));
}

float LogAddExp(float a, float b) {
  const float high = std::max(a, b), low = std::min(a, b);
  if (low == kNone) return high;
  const auto ratio = static_cast<float>(Exp(static_cast<double>(low - high)));
  return high + static_cast<float>(Kernels().log1p(ratio));
}

}  // namespace

float TorchLogZ(const std::vector<Leaf>& leaves, std::span<const SideLeaf> partials,
                uint64_t chunk) {
  float total = kNone;
  for (size_t begin = 0, end = 0; begin < leaves.size(); begin = end) {
    const uint64_t number = leaves[begin].begin / chunk;
    while (end < leaves.size() && leaves[end].begin / chunk == number) ++end;
    total = LogAddExp(total, ChunkLogSum(partials.subspan(begin, end - begin)));
  }
  return total;
}

TorchLeaf TorchPair(const float* ref, const float* cand, uint64_t columns, float log_z_ref,
                    float log_z_cand) {
  TorchLeaf out;
  for (uint64_t v = 0; v < columns; ++v) {
    if (ref[v] == kNone || cand[v] == kNone) continue;
    const float a = ref[v] - log_z_ref, b = cand[v] - log_z_cand;
    const auto p = static_cast<float>(Exp(a)), q = static_cast<float>(Exp(b));
    const float middle = std::max(0.5f * (p + q), kLeastProbability);
    const auto log_middle = static_cast<float>(Log(middle));
    out.kl += p * (a - b);
    out.jsd += 0.5 * (p * (a - log_middle)) + 0.5 * (q * (b - log_middle));
  }
  return out;
}

std::vector<TorchLeaf> TorchPass(Tile& tile, const std::vector<SideRow>& sides, ThreadPool& pool) {
  const Job& job = tile.job();
  const uint64_t rows = tile.rows(), leaves = job.own.count();
  const uint64_t items = job.comparisons.size() * rows;
  std::vector<TorchLeaf> out(items * leaves);
  pool.Run(static_cast<int64_t>(items), [&](int64_t task, int) {
    const auto item = static_cast<uint64_t>(task);
    const Comparison& c = job.comparisons[item / rows];
    const uint64_t row = item % rows;
    for (uint64_t leaf = 0; leaf < leaves; ++leaf) {
      out[item * leaves + leaf] =
          TorchPair(tile.Row<float>(c.ref, leaf, row), tile.Row<float>(c.cand, leaf, row),
                    job.leaves[job.own.first + leaf].columns(),
                    sides[c.ref * rows + row].torch_log_z, sides[c.cand * rows + row].torch_log_z);
    }
  });
  return out;
}

void ReplaceByTorchSums(const Job& job, std::span<const TorchLeaf> all,
                        std::vector<PairSums>* sums) {
  std::vector<double> kl(job.leaves.size()), jsd(job.leaves.size());
  for (size_t item = 0; item < sums->size(); ++item) {
    PairSums& pair = (*sums)[item];
    if (pair.cand_masked >= 0 || pair.ref_masked >= 0) continue;
    for (size_t l = 0; l < job.leaves.size(); ++l) {
      kl[l] = all[item * job.leaves.size() + l].kl;
      jsd[l] = all[item * job.leaves.size() + l].jsd;
    }
    pair.kl_ref_cand = TreeSum(kl);
    pair.jsd = TreeSum(jsd);
  }
}

}  // namespace assay
