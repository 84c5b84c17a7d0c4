// The two passes over a tile. The first (SideLeaf) is taken while the tile is filled (logits.h);
// between them ranks learn each row's maximum and log-sum, which the second needs.

#ifndef ASSAY_WORKER_REPLAY_PASSES_H_
#define ASSAY_WORKER_REPLAY_PASSES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/replay/combine.h"
#include "worker/replay/threads.h"
#include "worker/replay/tile.h"

namespace assay {

// First-pass partials of this rank -> [source][row] over the whole vocabulary.
absl::StatusOr<std::vector<SideRow>> FinishFirstPass(const TileRows& tile,
                                                     const std::vector<SideLeaf>& partials,
                                                     Collective& collective);

// A logit of a tile: row of the tile, column of the vocabulary.
struct LogitPlace {
  size_t source = 0;
  uint64_t row = 0, column = 0;
};
// Writes the logits (after the softcap) at places that all lie in this rank's columns.
using LogitReader = std::function<absl::Status(std::span<const LogitPlace>, double*)>;

// What the second pass needs of every [comparison][row]; threshold_column counts from the
// vocabulary's first column. `sides` as FinishFirstPass gave it, without bad rows or rows that have
// no finite column. The ranks exchange the thresholds: only one of them holds each.
absl::StatusOr<std::vector<PairRow>> MakePairRows(const TileRows& tile,
                                                  const std::vector<SideRow>& sides,
                                                  const LogitReader& read, Collective& collective);

// Second-pass partials of this rank, [comparison][row][own leaf] -> [comparison][row].
absl::StatusOr<std::vector<PairSums>> FinishSecondPass(const TileRows& tile,
                                                       const std::vector<PairLeaf>& partials,
                                                       Collective& collective);

// The whole second pass over a tile in this machine's memory.
absl::StatusOr<std::vector<PairSums>> SecondPass(Tile& tile, const std::vector<SideRow>& sides,
                                                 ThreadPool& pool, Collective& collective);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_PASSES_H_
