#include "server/engine/batch.h"

namespace assay {

absl::Status ApplyAndCommit(State& state, Catalogue& catalogue,
                            const std::vector<const Command*>& commands,
                            const std::function<Now()>& now, std::vector<Outcome>* outcomes) {
  std::vector<Row> rows;
  for (const Command* command : commands) {
    outcomes->push_back(Apply(state, *command, now()));
    const std::vector<Row>& changed = outcomes->back().rows;
    rows.insert(rows.end(), changed.begin(), changed.end());
  }
  return catalogue.Commit(rows);
}

}  // namespace assay
