// Which unit a worker gets next.

#include <algorithm>

#include "server/core/steps.h"
#include "storage/base/digest.h"

namespace assay::core {
namespace {

using Work = ReadyClass::Work;

std::string LeaseId(const State& s, const UnitRow& unit) {
  return std::to_string(s.epoch) + "-" + std::to_string(unit.id) + "-" +
         std::to_string(unit.attempt);
}

// Whether the first captures of the unit's contexts were made by this worker.
bool MadeFirst(const State& s, const WorkerState& w, const UnitRow& repeat) {
  const auto it = s.units_of_capture.find(repeat.capture);
  if (it == s.units_of_capture.end()) return false;
  return std::any_of(it->second.begin(), it->second.end(), [&](uint64_t id) {
    const UnitRow& unit = s.units.at(id);
    if (unit.kind != UnitKind::kCapture || unit.state != UnitState::kDone || unit.attempts.empty())
      return false;
    if (unit.attempts.back().worker != w.id) return false;
    return std::any_of(unit.contexts.begin(), unit.contexts.end(), [&](int64_t c) {
      return std::find(repeat.contexts.begin(), repeat.contexts.end(), c) != repeat.contexts.end();
    });
  });
}

bool FailedOn(const WorkerState& w, const UnitRow& unit) {
  return std::find(unit.failed_on.begin(), unit.failed_on.end(), w.id) != unit.failed_on.end();
}

// False when another worker should take it: one on which it has not failed, or, for a repeat, one
// that did not make the first capture.
bool IsPreferred(const State& s, const WorkerState& w, const UnitRow& unit) {
  const bool failed = FailedOn(w, unit);
  const bool made = unit.kind == UnitKind::kRepeat && MadeFirst(s, w, unit);
  if (!failed && !made) return true;
  return std::none_of(s.workers.begin(), s.workers.end(), [&](const auto& other) {
    const WorkerState& o = other.second;
    if (o.id == w.id || !MayTake(s, o, unit)) return false;
    if (failed) return !FailedOn(o, unit);
    return !FailedOn(o, unit) && !MadeFirst(s, o, unit);
  });
}

// The first unit of a run that is given out starts it, and its first replay fixes the kernels.
void BeginRun(Txn& t, const WorkerState& w, const UnitRow& unit, const std::string& waiting) {
  const RunRow& row = t.s.runs.at(waiting);
  const bool pins = IsReplay(unit.kind) && row.replay_identity_json.empty();
  if (!pins && row.state != RunState::kQueued) return;
  RunRow run = row;
  if (pins) run.replay_identity_json = w.replay_identity;
  if (run.state == RunState::kQueued) SetRunState(t, &run, RunState::kRunning);
  t.Put(run);
}

void GrantUnit(Txn& t, WorkerState& w, UnitRow unit, SyncAnswer* answer) {
  const std::string waiting = WaitingRun(t.s, unit);
  ++unit.attempt;
  unit.state = UnitState::kLeased;
  unit.lease = LeaseId(t.s, unit);
  AttemptRow attempt;
  attempt.lease = unit.lease;
  attempt.worker = w.id;
  attempt.incarnation = w.incarnation;
  attempt.build = w.build;
  attempt.tp = w.tp;
  attempt.host_json = w.host_json;
  attempt.identity_sha256 = Sha256Hex(IsReplay(unit.kind) ? w.replay_identity : w.capture_identity);
  attempt.start_ms = t.now.unix_ms;
  unit.attempts.push_back(attempt);
  if (unit.kind == UnitKind::kReplay && unit.checks == 0) {
    const RunRow& run = t.s.runs.at(unit.run);
    unit.candidates.clear();
    for (uint32_t i = 0; i < run.candidates.size(); ++i) {
      if (run.candidates[i].state == CandidateState::kWaiting) unit.candidates.push_back(i);
    }
  }
  t.Put(unit);
  if (!waiting.empty()) BeginRun(t, w, unit, waiting);
  w.leases.insert(unit.lease);
  t.s.leases[unit.lease] = {unit.id,
                            w.id,
                            w.incarnation,
                            t.now.mono_ms + t.s.options.lease_ms,
                            0,
                            static_cast<int64_t>(unit.contexts.size())};
  ++t.s.counters.leases_granted;
  answer->start.push_back({unit.lease, unit.id, waiting});
}

// Calls f(class, queues) for every class of `work` and `identity`.
template <class F>
void ForClasses(State& s, Work work, const std::string& identity, const F& f) {
  ReadyClass from;
  from.work = work;
  from.identity = identity;
  for (auto it = s.ready.classes().lower_bound(from);
       it != s.ready.classes().end() && it->first.work == work && it->first.identity == identity;
       ++it) {
    f(it->first, it->second);
  }
}

// The first unit of one class that the worker should take; 0 for none.
uint64_t FirstOf(const State& s, const WorkerState& w, const ReadyClass& of,
                 const ReadyQueues& queues) {
  if (of.work == Work::kReplay && !WorkerHasBackend(w, of.backend)) return 0;
  if (!of.not_by.empty() && !MayTake(s, w, s.units.at(queues.by_head.begin()->first))) return 0;
  for (const auto& [head, model] : queues.by_head) {
    ++s.counters.rows_visited;
    if (w.models_absent.count(model) != 0) continue;
    if (!of.particular) return head;
    for (const uint64_t id : queues.by_model.at(model).units) {
      ++s.counters.rows_visited;
      if (IsPreferred(s, w, s.units.at(id))) return id;
    }
  }
  return 0;
}

uint64_t NextFor(State& s, const WorkerState& w) {
  uint64_t next = 0;
  bool check = false;  // a run waits for it to be sealed
  const auto consider = [&](const ReadyClass& of, const ReadyQueues& queues) {
    const bool checks = !of.not_by.empty();
    const uint64_t id = check && !checks ? 0 : FirstOf(s, w, of, queues);
    if (id == 0 || (checks == check && next != 0 && next < id)) return;
    next = id;
    check = checks;
  };
  ForClasses(s, Work::kPrepare, "", consider);
  if (!w.capture_identity.empty()) {
    ForClasses(s, Work::kCapture, "", consider);
    ForClasses(s, Work::kCapture, w.capture_identity, consider);
  }
  ForClasses(s, Work::kReplay, "", consider);
  ForClasses(s, Work::kReplay, w.replay_identity, consider);
  return next;
}

// Work that waits while this worker has nothing to do, because its kernels are others: the run
// whose turn it would be says so, once.
void NoteOtherKernels(Txn& t, const WorkerState& w) {
  std::vector<uint64_t> heads;
  for (const auto& [of, queues] : t.s.ready.classes()) {
    const std::string& own = of.work == Work::kReplay ? w.replay_identity : w.capture_identity;
    if (of.work != Work::kPrepare && !of.identity.empty() && of.identity != own)
      heads.push_back(queues.by_head.begin()->first);
  }
  for (const uint64_t id : heads) {
    ++t.s.counters.rows_visited;
    const UnitRow& unit = t.s.units.at(id);
    const std::string waiting = WaitingRun(t.s, unit);
    if (waiting.empty()) continue;
    const std::string text = "workers/" + w.id + " has other " +
                             (IsReplay(unit.kind) ? "replay" : "capture") +
                             " kernels than this run was begun with; it gets none of those units";
    if (t.s.noted.count({waiting, text}) != 0) continue;
    RunRow run = t.s.runs.at(waiting);
    t.NoteOnce(&run, "WORKER_IDENTITY_DIFFERS", text);
    t.Put(run);
  }
}

}  // namespace

void Grant(Txn& t, WorkerState& w, int64_t slots, SyncAnswer* answer) {
  if (slots <= 0 || w.draining || w.replay_identity.empty()) return;
  for (; slots > 0; --slots) {
    const uint64_t next = NextFor(t.s, w);
    if (next == 0) return NoteOtherKernels(t, w);
    GrantUnit(t, w, t.s.units.at(next), answer);
  }
}

}  // namespace assay::core
