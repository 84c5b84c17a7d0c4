#include "worker/replay/passes.h"

#include "storage/base/macros.h"

namespace assay {
namespace {

constexpr uint64_t kRowsPerTask = 16;

double LogitAt(Tile& tile, size_t source, uint64_t leaf, uint64_t row, uint64_t column) {
  return tile.wide() ? tile.Row<double>(source, leaf, row)[column]
                     : static_cast<double>(tile.Row<float>(source, leaf, row)[column]);
}

// The candidate's logit at the reference's top-1 column, [comparison][row]: only one rank holds the
// column.
absl::StatusOr<std::vector<double>> GatherThresholds(Tile& tile, const std::vector<SideRow>& sides,
                                                     Collective& collective) {
  const Job& job = tile.job();
  const uint64_t items = job.comparisons.size() * tile.rows();
  std::vector<double> own(items);
  std::vector<size_t> owner(items);
  for (size_t c = 0; c < job.comparisons.size(); ++c) {
    for (uint64_t row = 0; row < tile.rows(); ++row) {
      const auto column =
          static_cast<uint64_t>(sides[job.comparisons[c].ref * tile.rows() + row].argmax);
      uint64_t leaf = 0;
      while (job.leaves[leaf].end <= column) ++leaf;
      const uint64_t item = c * tile.rows() + row;
      while (job.ranges[owner[item]].last <= leaf) ++owner[item];
      if (leaf < job.own.first || leaf >= job.own.last) continue;
      const double logit = LogitAt(tile, job.comparisons[c].cand, leaf - job.own.first, row,
                                   column - job.leaves[leaf].begin);
      own[item] = job.softcap() > 0 ? Kernels().softcap(logit, job.softcap()) : logit;
    }
  }
  if (job.ranges.size() == 1) return own;
  std::vector<double> all(items * job.ranges.size());
  ASSAY_RETURN_IF_ERROR(
      collective.AllGather({reinterpret_cast<const uint8_t*>(own.data()), own.size() * 8},
                           {reinterpret_cast<uint8_t*>(all.data()), all.size() * 8}));
  for (uint64_t item = 0; item < items; ++item) own[item] = all[owner[item] * items + item];
  return own;
}

void PassRow(Tile& tile, const Comparison& comparison, uint64_t leaf, uint64_t row,
             const PairRow& values, PairLeaf* out) {
  const Job& job = tile.job();
  const auto columns = static_cast<int64_t>(job.leaves[job.own.first + leaf].columns());
  if (tile.wide()) {
    Kernels().pair_f64(tile.Row<double>(comparison.ref, leaf, row),
                       tile.Row<double>(comparison.cand, leaf, row), columns, job.softcap(), values,
                       out);
  } else {
    Kernels().pair_f32(tile.Row<float>(comparison.ref, leaf, row),
                       tile.Row<float>(comparison.cand, leaf, row), columns, job.softcap(), values,
                       out);
  }
}

}  // namespace

absl::StatusOr<std::vector<SideRow>> FinishFirstPass(const Tile& tile,
                                                     const std::vector<SideLeaf>& partials,
                                                     Collective& collective) {
  const Job& job = tile.job();
  const uint64_t items = job.sources.size() * tile.rows();
  ASSAY_ASSIGN_OR_RETURN(const std::vector<SideLeaf> all,
                         GatherLeaves(job, items, partials, collective));
  std::vector<SideRow> out(items);
  for (uint64_t item = 0; item < items; ++item) {
    out[item] =
        CombineSide(job.leaves, std::span(all).subspan(item * job.leaves.size(), job.leaves.size()),
                    tile.observed(item % tile.rows()));
  }
  return out;
}

absl::StatusOr<std::vector<PairSums>> SecondPass(Tile& tile, const std::vector<SideRow>& sides,
                                                 ThreadPool& pool, Collective& collective) {
  const Job& job = tile.job();
  const uint64_t rows = tile.rows(), own_leaves = job.own.count();
  ASSAY_ASSIGN_OR_RETURN(const std::vector<double> thresholds,
                         GatherThresholds(tile, sides, collective));
  std::vector<PairLeaf> partials(job.comparisons.size() * rows * own_leaves);
  const uint64_t groups = (rows + kRowsPerTask - 1) / kRowsPerTask;
  const uint64_t per_comparison = own_leaves * groups;
  pool.Run(static_cast<int64_t>(job.comparisons.size() * per_comparison), [&](int64_t task, int) {
    const auto t = static_cast<uint64_t>(task);
    const size_t c = t / per_comparison;
    const uint64_t leaf = t % per_comparison / groups;
    const uint64_t first = t % groups * kRowsPerTask;
    const Comparison& comparison = job.comparisons[c];
    const auto begin = static_cast<int64_t>(job.leaves[job.own.first + leaf].begin);
    for (uint64_t row = first; row < std::min(rows, first + kRowsPerTask); ++row) {
      const SideRow& ref = sides[comparison.ref * rows + row];
      const SideRow& cand = sides[comparison.cand * rows + row];
      const PairRow values{
          ref.max,           cand.max, ref.log_sum, cand.log_sum, thresholds[c * rows + row],
          ref.argmax - begin};
      PassRow(tile, comparison, leaf, row, values, &partials[(c * rows + row) * own_leaves + leaf]);
    }
  });
  const uint64_t items = job.comparisons.size() * rows;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PairLeaf> all,
                         GatherLeaves(job, items, partials, collective));
  std::vector<PairSums> out(items);
  for (uint64_t item = 0; item < items; ++item) {
    out[item] = CombinePair(job.leaves,
                            std::span(all).subspan(item * job.leaves.size(), job.leaves.size()));
  }
  return out;
}

}  // namespace assay
