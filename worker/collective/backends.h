// The backends behind CreateCollective.

#ifndef ASSAY_WORKER_COLLECTIVE_BACKENDS_H_
#define ASSAY_WORKER_COLLECTIVE_BACKENDS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/collective/collective.h"

namespace assay::collective_internal {

std::unique_ptr<Collective> CreateSingle();

// TCP through Gloo; COLLECTIVE_FAILED when the group does not assemble in time.
absl::StatusOr<std::unique_ptr<Collective>> CreateGloo(const CollectiveOptions& options);

// NCCL lives in a library of its own, loaded on demand, so that a machine without CUDA starts every
// program. Number of CUDA devices that libassay_nccl.so sees; 0 when it was not built or cannot be
// loaded.
int NcclDeviceCount();
absl::StatusOr<std::unique_ptr<Collective>> CreateNccl(const CollectiveOptions& options);

// What libassay_nccl.so exports. Both sides come from one build.
inline constexpr int kNcclAbi = 1;
inline constexpr const char* kNcclLibrary = "libassay_nccl.so";
using NcclAbiFunction = int (*)();          // assay_nccl_abi
using NcclDeviceCountFunction = int (*)();  // assay_nccl_device_count
using NcclCreateFunction = Collective* (*)(const CollectiveOptions*,
                                           absl::Status*);  // assay_nccl_create

}  // namespace assay::collective_internal

#endif  // ASSAY_WORKER_COLLECTIVE_BACKENDS_H_
