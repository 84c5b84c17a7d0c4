// The two passes over a tile. The first (SideLeaf) is taken while the tile is filled (logits.h);
// between them ranks learn each row's maximum and log-sum, which the second needs.

#ifndef ASSAY_WORKER_REPLAY_PASSES_H_
#define ASSAY_WORKER_REPLAY_PASSES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/replay/combine.h"
#include "worker/replay/threads.h"
#include "worker/replay/tile.h"

namespace assay {

// First-pass partials of this rank -> [source][row] over the whole vocabulary.
absl::StatusOr<std::vector<SideRow>> FinishFirstPass(const Tile& tile,
                                                     const std::vector<SideLeaf>& partials,
                                                     Collective& collective);

// Second pass over every comparison -> [comparison][row]. `sides` as FinishFirstPass gave it,
// without bad rows or rows that have no finite column.
absl::StatusOr<std::vector<PairSums>> SecondPass(Tile& tile, const std::vector<SideRow>& sides,
                                                 ThreadPool& pool, Collective& collective);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_PASSES_H_
