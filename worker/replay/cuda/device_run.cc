#include "worker/replay/cuda/device_run.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/agree.h"
#include "worker/replay/exchange.h"
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
    TileExchange exchange(job_, collective_, progress_, out);
    if (tiles_.empty()) return absl::OkStatus();
    absl::Status status = Start(0);
    for (size_t t = 0; t < tiles_.size(); ++t) {
      if (status.ok() && t + 1 < tiles_.size()) status = Start(t + 1);
      FirstPart first;
      if (status.ok()) status = FinishFirst(t, &first);
      if (t > 0) KeepSecond(t - 1, &status, &exchange);
      ASSAY_ASSIGN_OR_RETURN(const std::vector<PairRow> rows,
                             exchange.Meet(tiles_[t], status, std::move(first)));
      status = device_.StartSecond(SlotOf(t), rows);
    }
    KeepSecond(tiles_.size() - 1, &status, &exchange);
    return exchange.Finish(status);
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

  absl::Status FinishFirst(size_t t, FirstPart* out) {
    ASSAY_RETURN_IF_ERROR(device_.FinishFirst(SlotOf(t), &out->sides));
    Count(tiles_[t]);
    const LogitReader read = [&](std::span<const LogitPlace> places, double* values) {
      return device_.ReadLogits(SlotOf(t), places, values);
    };
    ASSAY_ASSIGN_OR_RETURN(out->thresholds, OwnThresholds(tiles_[t], out->sides, read));
    return absl::OkStatus();
  }

  // Tile t met last. Nothing is kept of it where an error came first.
  void KeepSecond(size_t t, absl::Status* status, TileExchange* exchange) {
    SecondPart second;
    if (status->ok()) *status = device_.FinishSecond(SlotOf(t), &second.pairs);
    if (!status->ok()) second = {};
    exchange->Keep(std::move(second));
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
  for (size_t h = 0; h < prepared.heads.size() && counters != nullptr; ++h) {
    if (prepared.heads[h] == nullptr) continue;
    counters->weight_bytes += job.own_columns() * plan.heads[h].hidden * 2;
  }
  ASSAY_RETURN_IF_ERROR(DeviceReplay(job, device, collective, progress, counters).Run(&out));
  return out;
}

}  // namespace assay
