// A group of one: every exchange is a copy.

#include <algorithm>

#include "storage/base/macros.h"
#include "worker/collective/backends.h"
#include "worker/collective/checks.h"

namespace assay::collective_internal {
namespace {

class Single : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return "single"; }

  absl::Status AllGather(std::span<const uint8_t> send, std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGather(send.size(), recv.size(), 1));
    std::copy(send.begin(), send.end(), recv.begin());
    return absl::OkStatus();
  }

  absl::Status AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                          std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGatherV(send.size(), counts, recv.size(), 0, 1));
    std::copy(send.begin(), send.end(), recv.begin());
    return absl::OkStatus();
  }

  absl::Status AllToAllV(std::span<const uint8_t> send, std::span<const uint64_t> send_counts,
                         std::span<uint8_t> recv, std::span<const uint64_t> recv_counts) override {
    ASSAY_RETURN_IF_ERROR(CheckAllToAllV(send.size(), send_counts, recv.size(), recv_counts, 0, 1));
    std::copy(send.begin(), send.end(), recv.begin());
    return absl::OkStatus();
  }

  absl::Status Barrier() override { return absl::OkStatus(); }
};

}  // namespace

std::unique_ptr<Collective> CreateSingle() { return std::make_unique<Single>(); }

}  // namespace assay::collective_internal
