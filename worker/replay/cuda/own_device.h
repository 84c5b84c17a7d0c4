// The GPU of this process: opened and proven once, for the identity that a rank tells and for its
// runs alike.

#ifndef ASSAY_WORKER_REPLAY_CUDA_OWN_DEVICE_H_
#define ASSAY_WORKER_REPLAY_CUDA_OWN_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/collective.h"
#include "worker/replay/cuda/device.h"

namespace assay {

// The rank of this process in its group, which decides on its GPU (plugin.h). To be said before the
// first ReplayEngine is made; 0 otherwise.
void SetOwnRank(int rank);
int OwnRank();

// A device whose self-test (device_run.h) passed.
struct ProvenDevice {
  std::unique_ptr<ReplayDevice> device;
  std::string description;  // DescribeDevice
  std::string digest;       // of the self-test
};
// BACKEND_UNAVAILABLE as OpenReplayDevice, SELF_TEST_FAILED as RunDeviceSelfTest.
absl::StatusOr<ProvenDevice> OpenProvenDevice(int rank);

// OK where all ranks say the same `description` and `digest`; else SELF_TEST_FAILED on every rank,
// which names the first that differs from rank 0. `status`: as Agree (agree.h).
absl::Status AgreeOnDevices(const absl::Status& status, const std::string& description,
                            const std::string& digest, Collective& collective);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_CUDA_OWN_DEVICE_H_
