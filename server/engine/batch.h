// One batch of commands: applied in order, committed together, answered only then.

#ifndef ASSAY_SERVER_ENGINE_BATCH_H_
#define ASSAY_SERVER_ENGINE_BATCH_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "server/core/apply.h"
#include "storage/db/catalogue.h"

namespace assay {

// Applies each command at its own `now()` and commits the rows of all of them as one batch.
// `outcomes`, one for each command, may be given away, and their effects performed, only when this
// returns OK. After an error the state is ahead of the store and the process must end.
absl::Status ApplyAndCommit(State& state, Catalogue& catalogue,
                            const std::vector<const Command*>& commands,
                            const std::function<Now()>& now, std::vector<Outcome>* outcomes);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_BATCH_H_
