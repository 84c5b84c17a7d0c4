// What libassay_replay_cuda.so exports (plugin.h).

#include "worker/replay/cuda/plugin.h"

extern "C" {

int assay_replay_cuda_abi() { return assay::kReplayCudaAbi; }

assay::ReplayDevice* assay_replay_cuda_open(int rank, absl::Status* status) {
  auto device = assay::cuda::OpenCudaDevice(rank);
  *status = device.status();
  return device.ok() ? device->release() : nullptr;
}
}
