#include "worker/collective/checks.h"

#include <optional>

#include "storage/base/checked.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::collective_internal {
namespace {

absl::Status Usage(std::string_view why) {
  return InvalidError("COLLECTIVE_USAGE", std::string(why) + "; this is a bug in the caller");
}

absl::Status CheckSum(std::span<const uint64_t> counts, uint64_t total, int size,
                      std::string_view what) {
  if (counts.size() != static_cast<size_t>(size)) {
    return Usage(std::string(what) + " has " + std::to_string(counts.size()) +
                 " entries for a group of " + std::to_string(size));
  }
  uint64_t sum = 0;
  for (const uint64_t count : counts) {
    const std::optional<uint64_t> next = CheckedAdd(sum, count);
    if (!next) return Usage(std::string(what) + " overflows");
    sum = *next;
  }
  if (sum != total) {
    return Usage(std::string(what) + " sums to " + std::to_string(sum) + " bytes, the buffer has " +
                 std::to_string(total));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Failed(int rank, int size, std::string_view operation, std::string_view why) {
  return UnavailableError("COLLECTIVE_FAILED",
                          "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": " +
                              std::string(operation) + ": " + std::string(why));
}

absl::Status CheckAllGather(uint64_t send, uint64_t recv, int size) {
  const std::optional<uint64_t> want = CheckedMul(send, static_cast<uint64_t>(size));
  if (!want || *want != recv) {
    return Usage("all-gather of " + std::to_string(send) + " bytes into " + std::to_string(recv));
  }
  return absl::OkStatus();
}

absl::Status CheckAllGatherV(uint64_t send, std::span<const uint64_t> counts, uint64_t recv,
                             int rank, int size) {
  ASSAY_RETURN_IF_ERROR(CheckSum(counts, recv, size, "all-gather counts"));
  if (counts[rank] != send) return Usage("all-gather sends other than counts[rank] bytes");
  return absl::OkStatus();
}

absl::Status CheckAllToAllV(uint64_t send, std::span<const uint64_t> send_counts, uint64_t recv,
                            std::span<const uint64_t> recv_counts, int rank, int size) {
  ASSAY_RETURN_IF_ERROR(CheckSum(send_counts, send, size, "all-to-all send counts"));
  ASSAY_RETURN_IF_ERROR(CheckSum(recv_counts, recv, size, "all-to-all receive counts"));
  if (send_counts[rank] != recv_counts[rank]) {
    return Usage("all-to-all keeps other bytes than it receives from itself");
  }
  return absl::OkStatus();
}

}  // namespace assay::collective_internal
