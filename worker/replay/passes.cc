#include "worker/replay/passes.h"

#include "storage/base/macros.h"
#include "worker/replay/torch_sums.h"

namespace assay {
namespace {

constexpr uint64_t kRowsPerTask = 16;

double LogitAt(Tile& tile, size_t source, uint64_t leaf, uint64_t row, uint64_t column) {
  return tile.wide() ? tile.Row<double>(source, leaf, row)[column]
                     : static_cast<double>(tile.Row<float>(source, leaf, row)[column]);
}

// LogitReader of a tile in memory.
absl::Status ReadTile(Tile& tile, std::span<const LogitPlace> places, double* out) {
  const Job& job = tile.job();
  for (const LogitPlace& place : places) {
    uint64_t leaf = job.own.first;
    while (job.leaves[leaf].end <= place.column) ++leaf;
    const double logit = LogitAt(tile, place.source, leaf - job.own.first, place.row,
                                 place.column - job.leaves[leaf].begin);
    *out++ = job.softcap() > 0 ? Kernels().softcap(logit, job.softcap()) : logit;
  }
  return absl::OkStatus();
}

// The candidate's logit at the reference's top-1 column, [comparison][row].
absl::StatusOr<std::vector<double>> GatherThresholds(const TileRows& tile,
                                                     const std::vector<SideRow>& sides,
                                                     const LogitReader& read,
                                                     Collective& collective) {
  const Job& job = tile.job();
  const uint64_t items = job.comparisons.size() * tile.rows();
  std::vector<LogitPlace> places;
  std::vector<uint64_t> own_items;
  std::vector<size_t> owner(items);
  for (size_t c = 0; c < job.comparisons.size(); ++c) {
    for (uint64_t row = 0; row < tile.rows(); ++row) {
      const auto column =
          static_cast<uint64_t>(sides[job.comparisons[c].ref * tile.rows() + row].argmax);
      const uint64_t item = c * tile.rows() + row;
      const auto end = [&](size_t r) {
        return job.ranges[r].count() == 0 ? 0 : job.leaves[job.ranges[r].last - 1].end;
      };
      while (end(owner[item]) <= column) ++owner[item];
      if (column < job.own_begin || column >= job.own_end) continue;
      places.push_back({job.comparisons[c].cand, row, column});
      own_items.push_back(item);
    }
  }
  std::vector<double> values(places.size()), own(items);
  ASSAY_RETURN_IF_ERROR(read(places, values.data()));
  for (size_t i = 0; i < values.size(); ++i) own[own_items[i]] = values[i];
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

absl::StatusOr<std::vector<SideRow>> FinishFirstPass(const TileRows& tile,
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
    if (!job.plan->vocab_chunk || out[item].bad >= 0) continue;
    out[item].torch_log_z =
        TorchLogZ(job.leaves, std::span(all).subspan(item * job.leaves.size(), job.leaves.size()),
                  *job.plan->vocab_chunk);
  }
  return out;
}

absl::StatusOr<std::vector<PairRow>> MakePairRows(const TileRows& tile,
                                                  const std::vector<SideRow>& sides,
                                                  const LogitReader& read, Collective& collective) {
  const Job& job = tile.job();
  ASSAY_ASSIGN_OR_RETURN(const std::vector<double> thresholds,
                         GatherThresholds(tile, sides, read, collective));
  std::vector<PairRow> out(thresholds.size());
  for (size_t item = 0; item < out.size(); ++item) {
    const Comparison& c = job.comparisons[item / tile.rows()];
    const SideRow& ref = sides[c.ref * tile.rows() + item % tile.rows()];
    const SideRow& cand = sides[c.cand * tile.rows() + item % tile.rows()];
    out[item] = {ref.max, cand.max, ref.log_sum, cand.log_sum, thresholds[item], ref.argmax};
  }
  return out;
}

absl::StatusOr<std::vector<PairSums>> FinishSecondPass(const TileRows& tile,
                                                       const std::vector<PairLeaf>& partials,
                                                       Collective& collective) {
  const Job& job = tile.job();
  const uint64_t items = job.comparisons.size() * tile.rows();
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PairLeaf> all,
                         GatherLeaves(job, items, partials, collective));
  std::vector<PairSums> out(items);
  for (uint64_t item = 0; item < items; ++item) {
    out[item] = CombinePair(job.leaves,
                            std::span(all).subspan(item * job.leaves.size(), job.leaves.size()));
  }
  return out;
}

absl::StatusOr<std::vector<PairSums>> SecondPass(Tile& tile, const std::vector<SideRow>& sides,
                                                 ThreadPool& pool, Collective& collective) {
  const Job& job = tile.job();
  const uint64_t rows = tile.rows(), own_leaves = job.own.count();
  const LogitReader read = [&](std::span<const LogitPlace> places, double* out) {
    return ReadTile(tile, places, out);
  };
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PairRow> pair_rows,
                         MakePairRows(tile, sides, read, collective));
  std::vector<PairLeaf> partials(job.comparisons.size() * rows * own_leaves);
  const uint64_t groups = (rows + kRowsPerTask - 1) / kRowsPerTask;
  const uint64_t per_comparison = own_leaves * groups;
  pool.Run(static_cast<int64_t>(job.comparisons.size() * per_comparison), [&](int64_t task, int) {
    const auto t = static_cast<uint64_t>(task);
    const size_t c = t / per_comparison;
    const uint64_t leaf = t % per_comparison / groups;
    const uint64_t first = t % groups * kRowsPerTask;
    const auto begin = static_cast<int64_t>(job.leaves[job.own.first + leaf].begin);
    for (uint64_t row = first; row < std::min(rows, first + kRowsPerTask); ++row) {
      PairRow values = pair_rows[c * rows + row];
      values.threshold_column -= begin;
      PassRow(tile, job.comparisons[c], leaf, row, values,
              &partials[(c * rows + row) * own_leaves + leaf]);
    }
  });
  ASSAY_ASSIGN_OR_RETURN(std::vector<PairSums> sums, FinishSecondPass(tile, partials, collective));
  if (job.plan->vocab_chunk) {
    ASSAY_RETURN_IF_ERROR(ReplaceByTorchSums(tile, sides, pool, collective, &sums));
  }
  return sums;
}

}  // namespace assay
