// Start-up check that this machine's logits do not depend on how products are cut.

#ifndef ASSAY_WORKER_REPLAY_STARTUP_CHECK_H_
#define ASSAY_WORKER_REPLAY_STARTUP_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/replay/replay.h"

namespace assay {

// Multiplies a small built-in problem whole and in several row and column splits, in one and in
// several threads; all must give the same bits. Then runs the metric kernels over it. Returns the
// SHA-256 of logits and metric partials. SELF_TEST_FAILED says which cut differed.
absl::StatusOr<std::string> RunSelfTest(ReplayBackend backend);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_STARTUP_CHECK_H_
