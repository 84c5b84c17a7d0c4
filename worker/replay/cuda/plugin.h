// Opening the GPU: libassay_replay_cuda.so is a library of its own, loaded on demand, so that every
// program starts on a machine without CUDA and assay-rank links none of it.

#ifndef ASSAY_WORKER_REPLAY_CUDA_PLUGIN_H_
#define ASSAY_WORKER_REPLAY_CUDA_PLUGIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/replay/cuda/device.h"

namespace assay {

// The device of a rank: CUDA device rank % devices, so several ranks may share one.
// BACKEND_UNAVAILABLE says what is missing (the library of this build, cuBLASLt, a driver, a GPU of
// a kind it was built for) and what to do.
absl::StatusOr<std::unique_ptr<ReplayDevice>> OpenReplayDevice(int rank);

// What libassay_replay_cuda.so exports. Both sides come from one build.
inline constexpr int kReplayCudaAbi = 1;
inline constexpr const char* kReplayCudaLibrary = "libassay_replay_cuda.so";
using ReplayCudaAbiFunction = int (*)();                               // assay_replay_cuda_abi
using ReplayCudaOpenFunction = ReplayDevice* (*)(int, absl::Status*);  // assay_replay_cuda_open

namespace cuda {
// The same without a library, for programs that contain the backend (cuda_device.cc).
absl::StatusOr<std::unique_ptr<ReplayDevice>> OpenCudaDevice(int rank);
}  // namespace cuda

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_CUDA_PLUGIN_H_
