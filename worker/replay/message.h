// The one message of a rank for a tile, and the same of all ranks put together.

#ifndef ASSAY_WORKER_REPLAY_MESSAGE_H_
#define ASSAY_WORKER_REPLAY_MESSAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/collective.h"
#include "worker/replay/job.h"
#include "worker/replay/passes.h"

namespace assay {

// Of one rank: arrays over its own leaves. Of all: over every leaf, thresholds [rank][item].
struct TileMessage {
  FirstPart first;
  SecondPart second;
};

// Rows of the two tiles that a message speaks of; 0 where there is none.
struct MessageRows {
  uint64_t first = 0, second = 0;
};

// Replaces *message by that of all ranks and returns OK, or why the run ends: `status` where it is
// not OK, COLLECTIVE_FAILED or REPLAY_CANCELLED where another rank's is not. *complete says whether
// `second` is there from every rank, as it may be although one of them stops.
absl::Status ExchangeMessages(const Job& job, const MessageRows& rows, const absl::Status& status,
                              Collective& collective, TileMessage* message, bool* complete);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_MESSAGE_H_
