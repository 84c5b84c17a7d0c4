// A plan checked and resolved: which products a rank makes and which comparisons use them.

#ifndef ASSAY_WORKER_REPLAY_JOB_H_
#define ASSAY_WORKER_REPLAY_JOB_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/replay/leaves.h"
#include "worker/replay/replay.h"

namespace assay {

inline constexpr uint64_t kVocabMax = uint64_t{1} << 24;
inline constexpr uint64_t kHiddenMax = uint64_t{1} << 20;
inline constexpr size_t kComparisonsMax = 256;
inline constexpr uint64_t kVocabChunkMin = 16;

// A distinct place that logits come from: an operand through a head, or stored logits (no head).
struct Source {
  size_t operand = 0;
  std::optional<size_t> head;
};

struct Comparison {
  size_t ref = 0, cand = 0;  // indices into Job::sources
};

struct Job {
  const ReplayPlan* plan = nullptr;
  uint64_t columns = 0;  // kept: valid_vocab or the whole vocabulary
  std::vector<Leaf> leaves;
  std::vector<LeafRange> ranges;  // of each rank
  LeafRange own;
  uint64_t own_begin = 0, own_end = 0;  // columns of this rank
  std::vector<Source> sources;
  std::vector<Comparison> comparisons;
  uint64_t total_rows = 0;
  bool wide = false;  // logits are held in fp64: fp64-audit, or a head has a scale or a bias

  double softcap() const { return plan->softcap.value_or(0.0); }
  uint64_t own_columns() const { return own_end - own_begin; }
};

// PLAN_INVALID names the field. Widths of logits operands are known only when their rows come
// (SHAPE_MISMATCH then); a plan without heads needs valid_vocab or takes the width of its first
// logits operand.
absl::StatusOr<Job> ResolveJob(const ReplayPlan& plan, int rank, int size);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_JOB_H_
