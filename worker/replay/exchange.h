// What happens around a tile, on any backend: ranks tell each other what they found, every rank
// combines, checks and emits the same.
//
// Ranks meet once for a tile: the message holds the first pass of the tile, the second pass of the
// tile before, and whether its sender goes on. So a rank that waits for another does it once a
// tile, and a tile's rows are emitted when the next one has its first pass.

#ifndef ASSAY_WORKER_REPLAY_EXCHANGE_H_
#define ASSAY_WORKER_REPLAY_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/collective.h"
#include "worker/replay/passes.h"
#include "worker/replay/replay.h"
#include "worker/replay/tile.h"

namespace assay {

// For each tile in order: Meet, then Keep with what the second pass found; Finish after the last.
// Everything named here outlives the object. An error ends the run on every rank: the rank at fault
// returns its own, the others COLLECTIVE_FAILED (or REPLAY_CANCELLED); refusals are the same on
// all.
class TileExchange {
 public:
  TileExchange(const Job& job, Collective& collective, const ReplayProgress& progress,
               ReplayResult* out);

  // This rank's first pass of `tile`, or why there is none (`first` is not looked at then). Emits
  // the tile before, refuses rows, and gives what the second pass needs, [comparison][row].
  absl::StatusOr<std::vector<PairRow>> Meet(const TileRows& tile, const absl::Status& status,
                                            FirstPart first);
  // [source][row] of the tile that met last.
  const std::vector<SideRow>& sides() const { return sides_; }

  // This rank's second pass of the tile that met last. Reports progress; a rank that is told to
  // cancel says so when it meets the others next.
  void Keep(SecondPart second);

  // True where the next Meet or Finish ends the run anyway, so that no work is worth while.
  bool stopping() const { return !own_.ok(); }

  // Emits the last tile; `status` is why this rank has no second pass of it, or OK.
  absl::Status Finish(const absl::Status& status);

 private:
  void EmitTileBefore(const SecondPart& all);

  const Job& job_;
  Collective& collective_;
  const ReplayProgress& progress_;
  ReplayResult& out_;
  absl::Status own_;  // why this rank stops
  // The tile that met last and is not emitted yet; rows() = 0 when there is none.
  TileRows tile_;
  std::vector<SideRow> sides_;
  SecondPart second_;
  absl::Status infinite_;  // of the current context: NaN and its like in a later row come first
  uint64_t done_ = 0;
};

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_EXCHANGE_H_
