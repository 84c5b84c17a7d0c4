#include "worker/replay/cuda/own_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/agree.h"
#include "worker/replay/cuda/device_run.h"
#include "worker/replay/cuda/plugin.h"

namespace assay {
namespace {

std::atomic<int> own_rank{0};

}  // namespace

void SetOwnRank(int rank) { own_rank = rank; }
int OwnRank() { return own_rank; }

absl::StatusOr<ProvenDevice> OpenProvenDevice(int rank) {
  ProvenDevice out;
  ASSAY_ASSIGN_OR_RETURN(out.device, OpenReplayDevice(rank));
  ASSAY_ASSIGN_OR_RETURN(out.digest, RunDeviceSelfTest(*out.device));
  out.description = DescribeDevice(out.device->identity());
  return out;
}

absl::Status AgreeOnDevices(const absl::Status& status, const std::string& description,
                            const std::string& digest, Collective& collective) {
  ASSAY_RETURN_IF_ERROR(Agree(status, collective));
  if (collective.size() == 1) return absl::OkStatus();
  const std::string own = Sha256Hex(description + "\n" + digest);
  std::vector<uint8_t> all(own.size() * static_cast<size_t>(collective.size()));
  ASSAY_RETURN_IF_ERROR(
      collective.AllGather({reinterpret_cast<const uint8_t*>(own.data()), own.size()}, all));
  for (int r = 1; r < collective.size(); ++r) {
    const auto other = all.begin() + static_cast<ptrdiff_t>(own.size()) * r;
    if (std::equal(other, other + static_cast<ptrdiff_t>(own.size()), all.begin())) continue;
    return InternalError("SELF_TEST_FAILED", "rank " + std::to_string(r) +
                                                 " has another GPU than rank 0 (this rank: " +
                                                 description + "); a group's GPUs must be alike");
  }
  return absl::OkStatus();
}

}  // namespace assay
