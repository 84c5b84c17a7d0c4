// The inputs of an offline replay and what is known of each operand.

#ifndef ASSAY_WORKER_GROUP_REPLAY_INPUTS_H_
#define ASSAY_WORKER_GROUP_REPLAY_INPUTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/format/capture.h"
#include "storage/format/suite.h"
#include "storage/report/report.h"
#include "worker/group/offline_heads.h"
#include "worker/group/offline_replay.h"

namespace assay {

struct ReplayCandidate {
  std::string label;
  std::string dir;
  absl::Status status;  // why it is out; OK = in
  CaptureDir capture;
  std::optional<OfflineHead> own_head;  // given by the user
};

struct ReplayInputs {
  Suite suite;
  std::string filter;
  std::vector<size_t> selected;  // positions in suite.contexts, suite order
  int64_t score_from = 0;        // rows dropped at the start of every context
  int64_t limit = 0;             // 0: `selected` is all that the filter selects
  CaptureDir reference;
  OfflineHead head;
  std::vector<ReplayCandidate> candidates;

  // Which results a candidate has: "own" with a head of its own, "shared" without one or when the
  // two heads differ.
  static bool HasOwn(const ReplayCandidate& candidate) { return candidate.own_head.has_value(); }
  bool HasShared(const ReplayCandidate& candidate) const;
  uint64_t rows_per_context() const {
    return static_cast<uint64_t>(suite.context_length - 1 - score_from);
  }
  std::vector<ContextRows> rows() const;
  Suite ComparedSuite() const;  // `suite` with the selected contexts alone
};

// Reads and verifies suite and captures but for the digests of hidden files (CaptureCheck reads
// those), and settles labels. Heads are not prepared yet.
absl::StatusOr<ReplayInputs> ReadReplayInputs(const OfflineReplayRequest& request);

// Prepares the heads and checks that shapes and vocabulary fit together.
absl::Status PrepareHeads(const OfflineReplayRequest& request, Group& group,
                          const std::string& work, ReplayInputs* inputs);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_REPLAY_INPUTS_H_
