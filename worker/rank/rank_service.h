// The life of a rank: hello, init, units, shutdown.

#ifndef ASSAY_WORKER_RANK_RANK_SERVICE_H_
#define ASSAY_WORKER_RANK_RANK_SERVICE_H_

#include "worker/rank/channel.h"

namespace assay {

// Serves `channel` until it is told to leave; returns the exit code of the process. A failed init
// is reported as RankFailed with id 0 and ends it with 3.
int ServeRank(RankChannel& channel);

}  // namespace assay

#endif  // ASSAY_WORKER_RANK_RANK_SERVICE_H_
