// A ReplayDevice that is this machine's CPU: plain fp32 products and the GPU's passes executed
// thread by thread (host_pass.h). For tests: everything but launches, memory and cuBLASLt is then
// what runs on a GPU.

#ifndef ASSAY_WORKER_REPLAY_CUDA_HOST_DEVICE_H_
#define ASSAY_WORKER_REPLAY_CUDA_HOST_DEVICE_H_

#include <memory>

#include "worker/replay/cuda/device.h"

namespace assay {

// `rows_that_fit` bounds the tiles. `fault` plants an error for tests of the self-test: products of
// a tile with fewer rows than 16 are off by one unit in the last place.
std::unique_ptr<ReplayDevice> MakeHostDevice(uint64_t rows_that_fit = 1 << 20, bool fault = false);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_CUDA_HOST_DEVICE_H_
