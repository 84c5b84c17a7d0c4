// A replay on a device: the same steps as on a CPU (tile, first pass, combine, second pass,
// combine, emit), with the next tile under way while this one is combined.

#ifndef ASSAY_WORKER_REPLAY_CUDA_DEVICE_RUN_H_
#define ASSAY_WORKER_REPLAY_CUDA_DEVICE_RUN_H_

#include "absl/status/statusor.h"
#include "worker/replay/cuda/device.h"
#include "worker/replay/prepare.h"

namespace assay {

// A device works on so many times the plan's row tile at once (64 becomes 2,048 rows).
inline constexpr uint64_t kDeviceRowFactor = 32;

// Fails as ReplayEngine::Run does. `prepared` is for cuda-bf16; its heads are not packed.
absl::StatusOr<ReplayResult> RunOnDevice(const Job& job, const Prepared& prepared,
                                         ReplayDevice& device, Collective& collective,
                                         const ReplayProgress& progress, ReplayCounters* counters);

// Multiplies a built-in problem whole and cut by rows and by ranks; the products must have the same
// bits. Returns the SHA-256 of products and partials. SELF_TEST_FAILED names the cut that differed.
absl::StatusOr<std::string> RunDeviceSelfTest(ReplayDevice& device);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_CUDA_DEVICE_RUN_H_
