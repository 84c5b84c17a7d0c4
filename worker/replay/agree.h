// Ranks that go on together or stop together.

#ifndef ASSAY_WORKER_REPLAY_AGREE_H_
#define ASSAY_WORKER_REPLAY_AGREE_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "worker/collective/collective.h"

namespace assay {

// OK on all ranks, or an error on all ranks: a rank whose `status` is not OK returns it, the others
// COLLECTIVE_FAILED (or CANCELLED when that is why).
absl::Status Agree(const absl::Status& status, Collective& collective);

// The two halves of it, for messages that carry the state beside other things: what a rank tells
// the others, and what it makes of what all have told, in rank order.
uint8_t StateOf(const absl::Status& status);
absl::Status AgreedStatus(const absl::Status& own, std::span<const uint8_t> states);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_AGREE_H_
