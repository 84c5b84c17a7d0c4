// How far a run is, by phase: for people.

#ifndef ASSAY_SERVER_CORE_PROGRESS_H_
#define ASSAY_SERVER_CORE_PROGRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/state.h"

namespace assay {

struct PhaseProgress {
  std::string phase;  // "prepare", "capture", "repeat", "replay", "seal"
  int64_t units_done = 0, units_total = 0;
  int64_t contexts_done = 0, contexts_total = 0;
  int64_t tokens_done = 0, tokens_total = 0;
  double tokens_per_second = 0;  // 0 = unknown
  int64_t eta_ms = -1;           // -1 = unknown
};

// Phases that have units and are not finished, in order of work; the last finished one when nothing
// is open.
std::vector<PhaseProgress> ProgressOf(const State& state, const RunRow& run, const Now& now);

}  // namespace assay

#endif  // ASSAY_SERVER_CORE_PROGRESS_H_
