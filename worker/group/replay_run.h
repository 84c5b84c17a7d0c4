// Runs an offline replay as units of a group.

#ifndef ASSAY_WORKER_GROUP_REPLAY_RUN_H_
#define ASSAY_WORKER_GROUP_REPLAY_RUN_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/safetensors.h"
#include "worker/group/group.h"
#include "worker/group/replay_inputs.h"

namespace assay {

struct ReplayRun {
  std::vector<std::shared_ptr<const SafetensorsFile>> files;  // one per unit
  std::string backend;
  std::set<std::string> rounded;  // operand ids whose rows were rounded to bf16
  Json units = Json::array();     // for the execution record: contexts, attempts, counters
};

// Ids in units and result files.
inline constexpr char kReferenceOperand[] = "ref";
std::string CandidateOperand(size_t candidate);                     // "cand0"
std::string ComparisonId(size_t candidate, std::string_view head);  // "cand0/own"

// Replays every candidate whose status is OK. A candidate whose rows or head are refused gets that
// status and the rest goes on without it; with none left the last such error is returned.
absl::StatusOr<ReplayRun> RunReplayUnits(const OfflineReplayRequest& request, Group& group,
                                         const std::string& work, const OfflineHooks& hooks,
                                         ReplayInputs* inputs);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_REPLAY_RUN_H_
