#include "worker/replay/exchange.h"

#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/emit.h"
#include "worker/replay/message.h"
#include "worker/replay/torch_sums.h"

namespace assay {

TileExchange::TileExchange(const Job& job, Collective& collective, const ReplayProgress& progress,
                           ReplayResult* out)
    : job_(job), collective_(collective), progress_(progress), out_(*out) {
  const ReplayPlan& plan = *job.plan;
  out->rows.assign(job.comparisons.size(), std::vector<ReplayRows>(plan.contexts.size()));
  for (auto& comparison : out->rows) {
    for (size_t c = 0; c < plan.contexts.size(); ++c) {
      for (auto& values : comparison[c].f64) values.resize(plan.contexts[c].observed.size());
      for (auto& values : comparison[c].i32) values.resize(plan.contexts[c].observed.size());
    }
  }
}

absl::StatusOr<std::vector<PairRow>> TileExchange::Meet(const TileRows& tile,
                                                        const absl::Status& status,
                                                        FirstPart first) {
  if (own_.ok()) own_ = status;
  TileMessage message = {std::move(first), std::move(second_)};
  if (!own_.ok()) message.first = {};
  bool complete = false;
  const absl::Status agreed =
      ExchangeMessages(job_, {tile.rows(), tile_.rows()}, own_, collective_, &message, &complete);
  if (complete) EmitTileBefore(message.second);
  if (complete && tile.first_row() == 0) {
    ASSAY_RETURN_IF_ERROR(std::exchange(infinite_, absl::OkStatus()));
  }
  ASSAY_RETURN_IF_ERROR(agreed);
  sides_ = CombineSides(tile, message.first.sides);
  ASSAY_RETURN_IF_ERROR(CheckRows(tile, sides_));
  tile_ = tile;
  return MakePairRows(tile, sides_, message.first.thresholds);
}

void TileExchange::Keep(SecondPart second) {
  second_ = std::move(second);
  done_ += tile_.rows();
  if (progress_ && !progress_(done_, job_.total_rows)) {
    own_ = Error(absl::StatusCode::kCancelled, "REPLAY_CANCELLED", "the replay was cancelled");
  }
}

absl::Status TileExchange::Finish(const absl::Status& status) {
  if (own_.ok()) own_ = status;
  TileMessage message = {{}, std::move(second_)};
  bool complete = false;
  const absl::Status agreed =
      ExchangeMessages(job_, {0, tile_.rows()}, own_, collective_, &message, &complete);
  if (complete) EmitTileBefore(message.second);
  ASSAY_RETURN_IF_ERROR(infinite_);
  return agreed;
}

void TileExchange::EmitTileBefore(const SecondPart& all) {
  if (tile_.rows() == 0) return;
  std::vector<PairSums> pairs = CombinePairs(tile_, all.pairs);
  if (job_.plan->vocab_chunk) ReplaceByTorchSums(job_, all.torch, &pairs);
  if (infinite_.ok()) infinite_ = CheckInfinite(tile_, pairs);
  std::vector<ReplayRows*> outputs;
  for (auto& comparison : out_.rows) outputs.push_back(&comparison[tile_.context()]);
  EmitRows(tile_, sides_, pairs, outputs);
  tile_ = TileRows();
}

}  // namespace assay
