// Policy torch-bf16 with a vocabulary chunk: the float32 steps of the published metric
// (specs: qwen-suites 3.2; docs/metric.md).
//
// A published divergence carries the rounding of its float32 normalisers, one step per chunk, which
// is most of its distance from the exact one. Here every step is rounded to float32 where the
// published tool rounds it; exp, log and sums within a chunk are made in fp64 before that. Results
// may be negative by some 1e-6.

#ifndef ASSAY_WORKER_REPLAY_TORCH_SUMS_H_
#define ASSAY_WORKER_REPLAY_TORCH_SUMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/replay/combine.h"
#include "worker/replay/threads.h"
#include "worker/replay/tile.h"

namespace assay {

// ln sum exp of a row: chunk by chunk from the left, float32 after every step. `leaves` do not
// cross chunks, `partials` are theirs, without bad columns. -inf when no column is finite.
float TorchLogZ(const std::vector<Leaf>& leaves, std::span<const SideLeaf> partials,
                uint64_t chunk);

// One leaf of one row, nats. Columns that both sides exclude count nothing.
struct TorchLeaf {
  double kl = 0, jsd = 0;
};
TorchLeaf TorchPair(const float* ref, const float* cand, uint64_t columns, float log_z_ref,
                    float log_z_cand);

// This rank's leaves of every [comparison][row].
std::vector<TorchLeaf> TorchPass(Tile& tile, const std::vector<SideRow>& sides, ThreadPool& pool);

// Puts the published kl_ref_cand and jsd in place of the exact ones, [comparison][row]; rows that
// exclude a column on one side only keep theirs. `all` has every leaf.
void ReplaceByTorchSums(const Job& job, std::span<const TorchLeaf> all,
                        std::vector<PairSums>* sums);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_TORCH_SUMS_H_
