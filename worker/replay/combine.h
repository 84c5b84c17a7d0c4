// Leaf partials of all ranks into one value per row, by a fixed tree over leaves.
//
// Ranks exchange bytes; every rank then has every leaf's partial and combines them in the same
// order, so all ranks hold the same results, and the same as a single rank would.

#ifndef ASSAY_WORKER_REPLAY_COMBINE_H_
#define ASSAY_WORKER_REPLAY_COMBINE_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/collective.h"
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

// Gathers [item][own leaf] of every rank into [item][leaf]. T is plain data.
template <typename T>
absl::StatusOr<std::vector<T>> GatherLeaves(const Job& job, uint64_t items,
                                            const std::vector<T>& own, Collective& collective) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (job.ranges.size() == 1) return own;
  std::vector<uint64_t> counts;
  for (const LeafRange& range : job.ranges) counts.push_back(items * range.count() * sizeof(T));
  std::vector<T> arrived(items * job.leaves.size()), out(items * job.leaves.size());
  const absl::Status status = collective.AllGatherV(
      {reinterpret_cast<const uint8_t*>(own.data()), own.size() * sizeof(T)}, counts,
      {reinterpret_cast<uint8_t*>(arrived.data()), arrived.size() * sizeof(T)});
  if (!status.ok()) return status;
  const T* from = arrived.data();
  for (const LeafRange& range : job.ranges) {
    for (uint64_t item = 0; item < items; ++item, from += range.count()) {
      std::copy(from, from + range.count(), out.begin() + item * job.leaves.size() + range.first);
    }
  }
  return out;
}

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_COMBINE_H_
