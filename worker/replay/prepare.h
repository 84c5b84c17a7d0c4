// Before the first product: everything is scanned, non-finite input refused, the backend decided.

#ifndef ASSAY_WORKER_REPLAY_PREPARE_H_
#define ASSAY_WORKER_REPLAY_PREPARE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/replay/heads.h"

namespace assay {

struct Prepared {
  ReplayBackend backend = ReplayBackend::kCpuF32;
  std::vector<std::shared_ptr<HeadSlice>> heads;  // packed, except for fp64-audit
  std::vector<ReplayMaximum> max_hidden, max_head;
};

// bf16 subnormals (below 2^-126) that AVX512-BF16 flushes to zero change a logit by less than 2^-66
// per term while the other factor is below this bound.
inline constexpr double kBf16OperandBound = 0x1p60;

// Every rank reads all rows of all operands and its own head rows; the result is the same on all
// ranks.
absl::StatusOr<Prepared> PrepareRun(const Job& job, HeadStore* store, ThreadPool& pool,
                                    Collective& collective);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_PREPARE_H_
