// Size checks shared by all backends, and the sizes of a group as running offsets.

#ifndef ASSAY_WORKER_COLLECTIVE_CHECKS_H_
#define ASSAY_WORKER_COLLECTIVE_CHECKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace assay::collective_internal {

// COLLECTIVE_FAILED with rank and size in front.
absl::Status Failed(int rank, int size, std::string_view operation, std::string_view why);

absl::Status CheckAllGather(uint64_t send, uint64_t recv, int size);
absl::Status CheckAllGatherV(uint64_t send, std::span<const uint64_t> counts, uint64_t recv,
                             int rank, int size);
absl::Status CheckAllToAllV(uint64_t send, std::span<const uint64_t> send_counts, uint64_t recv,
                            std::span<const uint64_t> recv_counts, int rank, int size);

}  // namespace assay::collective_internal

#endif  // ASSAY_WORKER_COLLECTIVE_CHECKS_H_
