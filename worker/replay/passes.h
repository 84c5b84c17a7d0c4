// The two passes over a tile. The first (SideLeaf) is taken while the tile is filled (logits.h);
// between them ranks learn each row's maximum and log-sum (exchange.h), which the second needs.

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
#include "worker/replay/torch_sums.h"

namespace assay {

// What one rank finds in the first pass of a tile.
struct FirstPart {
  std::vector<SideLeaf> sides;     // [source][row][own leaf]
  std::vector<double> thresholds;  // [comparison][row], see OwnThresholds
};

// And in the second.
struct SecondPart {
  std::vector<PairLeaf> pairs;   // [comparison][row][own leaf]
  std::vector<TorchLeaf> torch;  // the same, where the plan has a vocabulary chunk
};

// Partials of every leaf, [source][row][leaf] -> [source][row].
std::vector<SideRow> CombineSides(const TileRows& tile, std::span<const SideLeaf> all);

// A logit of a tile: row of the tile, column of the vocabulary.
struct LogitPlace {
  size_t source = 0;
  uint64_t row = 0, column = 0;
};
// Writes the logits (after the softcap) at places that all lie in this rank's columns.
using LogitReader = std::function<absl::Status(std::span<const LogitPlace>, double*)>;
LogitReader ReaderOf(Tile& tile);

// The candidate's logit where the reference is largest among this rank's columns,
// [comparison][row]; 0 where the reference has no finite column there. The rank that owns the row's
// top-1 so knows its threshold before anybody knows which rank that is. `sides`: [source][row][own
// leaf].
absl::StatusOr<std::vector<double>> OwnThresholds(const TileRows& tile,
                                                  std::span<const SideLeaf> sides,
                                                  const LogitReader& read);

// What the second pass needs of every [comparison][row]; threshold_column counts from the
// vocabulary's first column. `sides` without bad rows or rows that have no finite column;
// `thresholds` of every rank, [rank][comparison][row].
std::vector<PairRow> MakePairRows(const TileRows& tile, const std::vector<SideRow>& sides,
                                  std::span<const double> thresholds);

// The second pass over a tile in this machine's memory.
SecondPart SecondPass(Tile& tile, const std::vector<SideRow>& sides,
                      const std::vector<PairRow>& pair_rows, ThreadPool& pool);

// Partials of every leaf, [comparison][row][leaf] -> [comparison][row].
std::vector<PairSums> CombinePairs(const TileRows& tile, std::span<const PairLeaf> all);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_PASSES_H_
