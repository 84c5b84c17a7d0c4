#include "worker/replay/passes.h"

#include <optional>

#include "storage/base/macros.h"

namespace assay {
namespace {

constexpr uint64_t kRowsPerTask = 16;

double LogitAt(Tile& tile, size_t source, uint64_t leaf, uint64_t row, uint64_t column) {
  return tile.wide() ? tile.Row<double>(source, leaf, row)[column]
                     : static_cast<double>(tile.Row<float>(source, leaf, row)[column]);
}

// The rank among whose columns `column` lies.
size_t OwnerOf(const Job& job, uint64_t column) {
  size_t rank = 0;
  const auto end = [&](size_t r) {
    return job.ranges[r].count() == 0 ? 0 : job.leaves[job.ranges[r].last - 1].end;
  };
  while (end(rank) <= column) ++rank;
  return rank;
}

// The lowest of this rank's columns at their largest logit; none where none is finite.
std::optional<uint64_t> OwnTop(const Job& job, std::span<const SideLeaf> leaves) {
  std::optional<uint64_t> top;
  double max = 0;
  for (size_t l = 0; l < leaves.size(); ++l) {
    if (leaves[l].argmax < 0 || (top && leaves[l].max <= max)) continue;
    max = leaves[l].max;
    top = job.leaves[job.own.first + l].begin + static_cast<uint64_t>(leaves[l].argmax);
  }
  return top;
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

std::vector<SideRow> CombineSides(const TileRows& tile, std::span<const SideLeaf> all) {
  const Job& job = tile.job();
  std::vector<SideRow> out(job.sources.size() * tile.rows());
  for (uint64_t item = 0; item < out.size(); ++item) {
    const auto leaves = all.subspan(item * job.leaves.size(), job.leaves.size());
    out[item] = CombineSide(job.leaves, leaves, tile.observed(item % tile.rows()));
    if (!job.plan->vocab_chunk || out[item].bad >= 0) continue;
    out[item].torch_log_z = TorchLogZ(job.leaves, leaves, *job.plan->vocab_chunk);
  }
  return out;
}

LogitReader ReaderOf(Tile& tile) {
  return [&tile](std::span<const LogitPlace> places, double* out) {
    const Job& job = tile.job();
    for (const LogitPlace& place : places) {
      uint64_t leaf = job.own.first;
      while (job.leaves[leaf].end <= place.column) ++leaf;
      const double logit = LogitAt(tile, place.source, leaf - job.own.first, place.row,
                                   place.column - job.leaves[leaf].begin);
      *out++ = job.softcap() > 0 ? Kernels().softcap(logit, job.softcap()) : logit;
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<std::vector<double>> OwnThresholds(const TileRows& tile,
                                                  std::span<const SideLeaf> sides,
                                                  const LogitReader& read) {
  const Job& job = tile.job();
  const uint64_t own = job.own.count();
  std::vector<double> out(job.comparisons.size() * tile.rows());
  std::vector<LogitPlace> places;
  std::vector<uint64_t> items;
  for (uint64_t item = 0; item < out.size(); ++item) {
    const Comparison& c = job.comparisons[item / tile.rows()];
    const uint64_t row = item % tile.rows();
    const auto top = OwnTop(job, sides.subspan((c.ref * tile.rows() + row) * own, own));
    if (!top) continue;
    places.push_back({c.cand, row, *top});
    items.push_back(item);
  }
  std::vector<double> values(places.size());
  ASSAY_RETURN_IF_ERROR(read(places, values.data()));
  for (size_t i = 0; i < values.size(); ++i) out[items[i]] = values[i];
  return out;
}

std::vector<PairRow> MakePairRows(const TileRows& tile, const std::vector<SideRow>& sides,
                                  std::span<const double> thresholds) {
  const Job& job = tile.job();
  std::vector<PairRow> out(job.comparisons.size() * tile.rows());
  for (size_t item = 0; item < out.size(); ++item) {
    const Comparison& c = job.comparisons[item / tile.rows()];
    const SideRow& ref = sides[c.ref * tile.rows() + item % tile.rows()];
    const SideRow& cand = sides[c.cand * tile.rows() + item % tile.rows()];
    const size_t owner = OwnerOf(job, static_cast<uint64_t>(ref.argmax));
    out[item] = {
        ref.max,   cand.max, ref.log_sum, cand.log_sum, thresholds[owner * out.size() + item],
        ref.argmax};
  }
  return out;
}

SecondPart SecondPass(Tile& tile, const std::vector<SideRow>& sides,
                      const std::vector<PairRow>& pair_rows, ThreadPool& pool) {
  const Job& job = tile.job();
  const uint64_t rows = tile.rows(), own_leaves = job.own.count();
  SecondPart out;
  out.pairs.resize(job.comparisons.size() * rows * own_leaves);
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
              &out.pairs[(c * rows + row) * own_leaves + leaf]);
    }
  });
  if (job.plan->vocab_chunk) out.torch = TorchPass(tile, sides, pool);
  return out;
}

std::vector<PairSums> CombinePairs(const TileRows& tile, std::span<const PairLeaf> all) {
  const Job& job = tile.job();
  std::vector<PairSums> out(job.comparisons.size() * tile.rows());
  for (uint64_t item = 0; item < out.size(); ++item) {
    out[item] = CombinePair(job.leaves, all.subspan(item * job.leaves.size(), job.leaves.size()));
  }
  return out;
}

}  // namespace assay
