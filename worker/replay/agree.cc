#include "worker/replay/agree.h"

#include <string>
#include <vector>

#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

enum : uint8_t { kGoOn = 0, kStop = 1, kCancel = 2 };

}  // namespace

uint8_t StateOf(const absl::Status& status) {
  if (status.ok()) return kGoOn;
  return absl::IsCancelled(status) ? kCancel : kStop;
}

absl::Status AgreedStatus(const absl::Status& own, std::span<const uint8_t> states) {
  if (!own.ok()) return own;
  for (size_t r = 0; r < states.size(); ++r) {
    if (states[r] == kCancel) {
      return Error(absl::StatusCode::kCancelled, "REPLAY_CANCELLED",
                   "rank " + std::to_string(r) + " cancelled the replay");
    }
    if (states[r] != kGoOn) {
      return UnavailableError("COLLECTIVE_FAILED",
                              "rank " + std::to_string(r) + " stopped; its own error says why");
    }
  }
  return absl::OkStatus();
}

absl::Status Agree(const absl::Status& status, Collective& collective) {
  if (collective.size() == 1) return status;
  const uint8_t mine = StateOf(status);
  std::vector<uint8_t> all(static_cast<size_t>(collective.size()));
  const absl::Status gathered = collective.AllGather({&mine, 1}, all);
  if (!status.ok()) return status;
  ASSAY_RETURN_IF_ERROR(gathered);
  return AgreedStatus(status, all);
}

}  // namespace assay
