// Runs that ended long ago.

#include <set>

#include "server/core/steps.h"
#include "storage/base/digest.h"

namespace assay {

std::string RequestKey(const RunRow& run) {
  return Sha256Hex("CreateRun\n" + run.principal + "\n" + run.request_id);
}

std::vector<ExpiredRun> ExpiredRuns(const State& state, int64_t before_ms) {
  std::set<std::string> named;  // by a sealed report
  for (const auto& [id, report] : state.reports) named.insert(report.run);
  std::vector<ExpiredRun> out;
  for (const auto& [id, run] : state.runs) {
    if (!IsTerminal(run.state) || run.end_ms >= before_ms) continue;
    ExpiredRun expired{id, named.count(id) == 0, {}};
    for (const CandidateRow& candidate : run.candidates)
      expired.whole = expired.whole && candidate.state != CandidateState::kSealed;
    if (const auto it = state.units_of_run.find(id); it != state.units_of_run.end())
      expired.units.assign(it->second.begin(), it->second.end());
    if (expired.whole || !expired.units.empty()) out.push_back(std::move(expired));
  }
  return out;
}

void core::DoExpireRuns(Txn& t, const ExpireRuns& command) {
  const std::set<std::string> asked(command.runs.begin(), command.runs.end());
  std::set<std::string> whole;
  for (const ExpiredRun& expired : ExpiredRuns(t.s, command.before_ms)) {
    if (asked.count(expired.id) == 0) continue;
    const RunRow run = t.s.runs.at(expired.id);
    for (const uint64_t id : expired.units) {
      const UnitRow unit = t.s.units.at(id);
      t.Remove(unit);
      ++t.s.meta.removed_serials;
    }
    t.ChangeMeta();
    if (!expired.whole) continue;
    whole.insert(run.id);
    t.Remove(run);
    ++t.s.meta.removed_serials;
    if (const auto it = t.s.requests.find(RequestKey(run)); it != t.s.requests.end()) {
      const RequestIdRow request = it->second;
      t.Remove(request);
    }
  }
  for (const EventRow& event : command.events) {
    if (whole.count(event.run) == 0) continue;
    t.Remove(event);
    ++t.s.meta.removed_revisions;
  }
}

}  // namespace assay
