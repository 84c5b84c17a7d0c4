#include "server/engine/batch.h"

#include <algorithm>

namespace assay {
namespace {

// Takes out of `rows` those with the key of one of `others`.
void Without(const std::vector<Row>& others, std::vector<Row>* rows) {
  for (const Row& other : others) {
    const std::string key = KeyOf(other).key;
    rows->erase(std::remove_if(rows->begin(), rows->end(),
                               [&](const Row& row) { return KeyOf(row).key == key; }),
                rows->end());
  }
}

}  // namespace

absl::Status ApplyAndCommit(State& state, Catalogue& catalogue,
                            const std::vector<const Command*>& commands,
                            const std::function<Now()>& now, std::vector<Outcome>* outcomes) {
  std::vector<Row> rows, removed;
  for (const Command* command : commands) {
    outcomes->push_back(Apply(state, *command, now()));
    const std::vector<Row>& changed = outcomes->back().rows;
    if (!removed.empty()) Without(changed, &removed);
    rows.insert(rows.end(), changed.begin(), changed.end());
    const std::vector<Row>& gone = outcomes->back().removed;
    // What was written and then removed in one batch is not written at all, and the other way
    // round.
    Without(gone, &rows);
    removed.insert(removed.end(), gone.begin(), gone.end());
  }
  return catalogue.Commit(rows, removed);
}

}  // namespace assay
