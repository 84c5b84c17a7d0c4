#include "worker/replay/cuda/device_run.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/emit.h"
#include "worker/replay/rows.h"

namespace assay {
namespace {

// The same number on every rank: the smallest that any rank has room for.
absl::StatusOr<uint64_t> AgreeOnRows(const absl::StatusOr<uint64_t>& fits, Collective& collective) {
  ASSAY_RETURN_IF_ERROR(Agree(fits.status(), collective));
  const uint64_t own = *fits;
  std::vector<uint64_t> all(static_cast<size_t>(collective.size()));
  ASSAY_RETURN_IF_ERROR(
      collective.AllGather({reinterpret_cast<const uint8_t*>(&own), sizeof own},
                           {reinterpret_cast<uint8_t*>(all.data()), all.size() * sizeof own}));
  return std::max<uint64_t>(1, *std::min_element(all.begin(), all.end()));
}

class DeviceReplay {
 public:
  DeviceReplay(const Job& job, ReplayDevice& device, Collective& collective,
               const ReplayProgress& progress, ReplayCounters* counters)
      : job_(job),
        plan_(*job.plan),
        device_(device),
        collective_(collective),
        progress_(progress),
        counters_(counters),
        blocks_(plan_.operands.size()) {}

  absl::Status Run(ReplayResult* out) {
    ASSAY_ASSIGN_OR_RETURN(const uint64_t fits,
                           AgreeOnRows(device_.RowsThatFit(job_), collective_));
    const uint64_t step = CutTiles(fits);
    ASSAY_RETURN_IF_ERROR(Agree(device_.Begin(job_, step), collective_));
    if (tiles_.empty()) return absl::OkStatus();
    ASSAY_RETURN_IF_ERROR(Agree(Start(0), collective_));
    for (size_t t = 0; t < tiles_.size(); ++t) {
      if (t + 1 < tiles_.size()) ASSAY_RETURN_IF_ERROR(Agree(Start(t + 1), collective_));
      ASSAY_RETURN_IF_ERROR(Middle(t, out));
      ASSAY_RETURN_IF_ERROR(Report(t));
    }
    return Finish(tiles_.size() - 1, out);
  }

 private:
  static int SlotOf(size_t tile) { return static_cast<int>(tile % kDeviceSlots); }

  // Tiles never cross contexts. Returns the rows of the largest.
  uint64_t CutTiles(uint64_t fits) {
    uint64_t largest = 1;
    for (size_t c = 0; c < plan_.contexts.size(); ++c) {
      const uint64_t rows = plan_.contexts[c].observed.size();
      uint64_t step =
          plan_.row_tile == 0 ? rows : std::min(plan_.row_tile, rows) * kDeviceRowFactor;
      step = std::min({step, rows, fits});
      for (uint64_t first = 0; first < rows; first += step) {
        tiles_.emplace_back().Place(job_, c, first, std::min(step, rows - first));
      }
      largest = std::max(largest, step);
    }
    return largest;
  }

  // Stages the rows of a tile and sets the device to work on it.
  absl::Status Start(size_t t) {
    const TileRows& tile = tiles_[t];
    std::vector<bool> staged(plan_.operands.size());
    for (const Source& source : job_.sources) {
      if (staged[source.operand]) continue;
      staged[source.operand] = true;
      ASSAY_RETURN_IF_ERROR(Stage(tile, SlotOf(t), source));
    }
    const auto& observed = plan_.contexts[tile.context()].observed;
    return device_.StartFirst(SlotOf(t),
                              std::span(observed).subspan(tile.first_row(), tile.rows()));
  }

  absl::Status Stage(const TileRows& tile, int slot, const Source& source) {
    std::optional<RowBlock>& block = blocks_[source.operand];
    if (tile.first_row() == 0) {
      ASSAY_ASSIGN_OR_RETURN(block, FetchRows(job_, source.operand, tile.context()));
    }
    uint8_t* const to = device_.Staging(slot, source.operand);
    const uint64_t element = block->type == RowType::kBf16 ? 2 : 4;
    if (source.head) {
      RowBlock part = *block;
      part.rows = tile.rows();
      part.bytes = block->bytes.subspan(tile.first_row() * block->width * element,
                                        tile.rows() * block->width * element);
      CopyAsBf16(part, reinterpret_cast<uint16_t*>(to));
      return absl::OkStatus();
    }
    const uint64_t own = job_.own_columns() * element;
    for (uint64_t row = 0; row < tile.rows(); ++row) {
      const uint64_t from = ((tile.first_row() + row) * block->width + job_.own_begin) * element;
      if (own > 0) std::memcpy(to + row * own, block->bytes.data() + from, own);
    }
    return absl::OkStatus();
  }

  // Between the passes of tile t. The tile before is finished first, so that refusals come in the
  // order of rows: an infinite position waits for its context's end, but not longer.
  absl::Status Middle(size_t t, ReplayResult* out) {
    const TileRows& tile = tiles_[t];
    std::vector<SideLeaf> partials;
    ASSAY_RETURN_IF_ERROR(device_.FinishFirst(SlotOf(t), &partials));
    Count(tile);
    ASSAY_ASSIGN_OR_RETURN(std::vector<SideRow> sides,
                           FinishFirstPass(tile, partials, collective_));
    if (t > 0) ASSAY_RETURN_IF_ERROR(Finish(t - 1, out));
    ASSAY_RETURN_IF_ERROR(CheckRows(tile, sides));
    const LogitReader read = [&](std::span<const LogitPlace> places, double* values) {
      return device_.ReadLogits(SlotOf(t), places, values);
    };
    ASSAY_ASSIGN_OR_RETURN(const std::vector<PairRow> rows,
                           MakePairRows(tile, sides, read, collective_));
    sides_ = std::move(sides);
    return device_.StartSecond(SlotOf(t), rows);
  }

  // Emits tile t; sides_ are still its own.
  absl::Status Finish(size_t t, ReplayResult* out) {
    const TileRows& tile = tiles_[t];
    std::vector<PairLeaf> partials;
    ASSAY_RETURN_IF_ERROR(device_.FinishSecond(SlotOf(t), &partials));
    ASSAY_ASSIGN_OR_RETURN(const std::vector<PairSums> pairs,
                           FinishSecondPass(tile, partials, collective_));
    if (infinite_.ok()) infinite_ = CheckInfinite(tile, pairs);
    std::vector<ReplayRows*> outputs;
    for (auto& comparison : out->rows) outputs.push_back(&comparison[tile.context()]);
    EmitRows(tile, sides_, pairs, outputs);
    const bool last = t + 1 == tiles_.size() || tiles_[t + 1].context() != tile.context();
    return last ? infinite_ : absl::OkStatus();
  }

  absl::Status Report(size_t t) {
    done_ += tiles_[t].rows();
    absl::Status status;
    if (progress_ && !progress_(done_, job_.total_rows)) {
      status = Error(absl::StatusCode::kCancelled, "REPLAY_CANCELLED", "the replay was cancelled");
    }
    return Agree(status, collective_);
  }

  void Count(const TileRows& tile) {
    if (counters_ == nullptr) return;
    for (const Source& source : job_.sources) {
      if (!source.head) continue;
      counters_->multiply_adds +=
          tile.rows() * job_.own_columns() * plan_.heads[*source.head].hidden;
    }
  }

  const Job& job_;
  const ReplayPlan& plan_;
  ReplayDevice& device_;
  Collective& collective_;
  const ReplayProgress& progress_;
  ReplayCounters* const counters_;
  std::vector<std::optional<RowBlock>> blocks_;  // of the context being staged, by operand
  std::vector<TileRows> tiles_;
  std::vector<SideRow> sides_;  // of the tile whose second pass is under way
  absl::Status infinite_;
  uint64_t done_ = 0;
};

}  // namespace

absl::StatusOr<ReplayResult> RunOnDevice(const Job& job, const Prepared& prepared,
                                         ReplayDevice& device, Collective& collective,
                                         const ReplayProgress& progress, ReplayCounters* counters) {
  const ReplayPlan& plan = *job.plan;
  ReplayResult out;
  out.backend = prepared.backend;
  out.max_hidden = prepared.max_hidden;
  out.max_head = prepared.max_head;
  out.rows.assign(job.comparisons.size(), std::vector<ReplayRows>(plan.contexts.size()));
  for (auto& comparison : out.rows) {
    for (size_t c = 0; c < plan.contexts.size(); ++c) {
      for (auto& values : comparison[c].f64) values.resize(plan.contexts[c].observed.size());
      for (auto& values : comparison[c].i32) values.resize(plan.contexts[c].observed.size());
    }
  }
  for (size_t h = 0; h < prepared.heads.size() && counters != nullptr; ++h) {
    if (prepared.heads[h] == nullptr) continue;
    counters->weight_bytes += job.own_columns() * plan.heads[h].hidden * 2;
  }
  ASSAY_RETURN_IF_ERROR(DeviceReplay(job, device, collective, progress, counters).Run(&out));
  return out;
}

}  // namespace assay
