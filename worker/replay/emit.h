// From combined rows to outputs and refusals.

#ifndef ASSAY_WORKER_REPLAY_EMIT_H_
#define ASSAY_WORKER_REPLAY_EMIT_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/replay/combine.h"
#include "worker/replay/replay.h"
#include "worker/replay/tile.h"

namespace assay {

// The first refusal among a tile's rows that the first pass can tell: by row, then by comparison
// (reference before candidate; a NaN or +inf before a row without finite column), then the observed
// token.
absl::Status CheckRows(const TileRows& tile, const std::vector<SideRow>& sides);

// The first row whose KL(ref || cand) is infinite, unless the plan allows it.
absl::Status CheckInfinite(const TileRows& tile, const std::vector<PairSums>& pairs);

// Writes the tile's rows into rows[comparison] (arrays of the context, already sized).
void EmitRows(const TileRows& tile, const std::vector<SideRow>& sides,
              const std::vector<PairSums>& pairs, std::vector<ReplayRows*> rows);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_EMIT_H_
