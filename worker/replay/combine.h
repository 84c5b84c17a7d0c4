// Leaf partials of all ranks into one value per row, by a fixed tree over leaves.
//
// Ranks exchange bytes (exchange.h); every rank then has every leaf's partial and combines them in
// the same order, so all ranks hold the same results, and the same as a single rank would.

#ifndef ASSAY_WORKER_REPLAY_COMBINE_H_
#define ASSAY_WORKER_REPLAY_COMBINE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/replay/job.h"
#include "worker/replay/kernels.h"

namespace assay {

// values[0] + ... in the tree that halves the range (the left half gets the smaller part). 0 for
// none.
double TreeSum(std::span<const double> values);

// One row of one source, over the whole vocabulary.
struct SideRow {
  double max = 0;
  double log_sum = 0;   // ln sum exp(x - max)
  double entropy = 0;   // nats
  double observed = 0;  // logit of the observed token (0 when there is none)
  int64_t argmax = -1;  // -1: no finite column
  int64_t ties = 0;
  int64_t bad = -1;       // lowest NaN or +inf column; if set, nothing above is
  float torch_log_z = 0;  // TorchLogZ, where the plan has a vocabulary chunk
};

SideRow CombineSide(const std::vector<Leaf>& leaves, std::span<const SideLeaf> partials,
                    int64_t observed);

// One row of one comparison. Masked columns are vocabulary ids, -1 for none.
struct PairSums {
  double kl_ref_cand = 0, kl_cand_ref = 0, jsd = 0, accept = 0, variation = 0;
  int64_t beats = 0, cand_masked = -1, ref_masked = -1;
};

PairSums CombinePair(const std::vector<Leaf>& leaves, std::span<const PairLeaf> partials);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_COMBINE_H_
