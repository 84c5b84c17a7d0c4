// Workers and leases: who may take what, for how long, and what happens when somebody goes away.

#include <algorithm>

#include "server/core/steps.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

std::string_view UnitStateName(UnitState state) {
  switch (state) {
    case UnitState::kBlocked:
      return "BLOCKED";
    case UnitState::kReady:
      return "READY";
    case UnitState::kLeased:
      return "LEASED";
    case UnitState::kDone:
      return "DONE";
    case UnitState::kPoisoned:
      return "POISONED";
    case UnitState::kDropped:
      return "DROPPED";
  }
  return "UNKNOWN";
}

std::string_view UnitKindName(UnitKind kind) {
  switch (kind) {
    case UnitKind::kPrepare:
      return "prepare";
    case UnitKind::kCapture:
      return "capture";
    case UnitKind::kRepeat:
      return "repeat";
    case UnitKind::kReplay:
      return "replay";
    case UnitKind::kNoise:
      return "noise";
  }
  return "unknown";
}

namespace core {
namespace {

constexpr int64_t kProgressMax = int64_t{1} << 40;
constexpr size_t kReplacedMax = 16;  // earlier incarnations remembered per worker

std::string LeaseId(const State& s, const UnitRow& unit) {
  return std::to_string(s.epoch) + "-" + std::to_string(unit.id) + "-" +
         std::to_string(unit.attempt);
}

const std::string& PinnedIdentity(const State& s, const UnitRow& unit) {
  static const std::string none;
  if (unit.kind == UnitKind::kPrepare) return none;
  return IsReplay(unit.kind) ? s.runs.at(unit.run).replay_identity_json
                             : s.captures.at(unit.capture).identity_json;
}

bool HasIdentity(const State& s, const WorkerState& w, const UnitRow& unit) {
  const std::string& pinned = PinnedIdentity(s, unit);
  if (pinned.empty()) return true;
  return (IsReplay(unit.kind) ? w.replay_identity : w.capture_identity) == pinned;
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
  if (!waiting.empty()) {
    RunRow run = t.s.runs.at(waiting);
    bool changed = false;
    if (IsReplay(unit.kind) && run.replay_identity_json.empty()) {
      run.replay_identity_json = w.replay_identity;
      changed = true;
    }
    if (unit.kind == UnitKind::kReplay) {
      unit.candidates.clear();
      for (uint32_t i = 0; i < run.candidates.size(); ++i) {
        if (run.candidates[i].state == CandidateState::kWaiting) unit.candidates.push_back(i);
      }
    }
    if (run.state == RunState::kQueued) {
      SetRunState(t, &run, RunState::kRunning);
      changed = true;
    }
    if (changed) t.Put(run);
  }
  t.Put(unit);
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

void Grant(Txn& t, WorkerState& w, int64_t slots, SyncAnswer* answer) {
  if (w.draining || w.replay_identity.empty()) return;
  for (const uint64_t id : std::set<uint64_t>(t.s.ready_units)) {
    if (slots <= 0) return;
    const UnitRow& unit = t.s.units.at(id);
    if (!MayTake(t.s, w, unit)) {
      if (!HasIdentity(t.s, w, unit)) {
        if (const std::string waiting = WaitingRun(t.s, unit); !waiting.empty()) {
          RunRow run = t.s.runs.at(waiting);
          const uint64_t before = run.revision;
          t.NoteOnce(&run, "WORKER_IDENTITY_DIFFERS",
                     "workers/" + w.id + " has other " +
                         (IsReplay(unit.kind) ? "replay" : "capture") +
                         " kernels than this run was begun with; it gets none of those units");
          if (run.revision != before) t.Put(run);
        }
      }
      continue;
    }
    if (!IsPreferred(t.s, w, unit)) continue;
    GrantUnit(t, w, unit, answer);
    --slots;
  }
}

// The unit of a lease whose worker went silent is to be done again; but one whose leases are lost
// over and over may be what ends its workers, and must not go round for ever.
void LoseLease(Txn& t, const std::string& lease, std::string_view outcome) {
  const auto found = t.s.leases.find(lease);
  if (found == t.s.leases.end()) return;
  if (outcome == "expired") ++t.s.counters.leases_expired;
  const std::string worker = found->second.worker;
  const UnitRow unit = t.s.units.at(found->second.unit);
  const int64_t losses =
      1 + std::count_if(unit.attempts.begin(), unit.attempts.end(), [](const AttemptRow& attempt) {
        return attempt.outcome == "expired" || attempt.outcome == "lost";
      });
  const bool last = unit.lease == lease && losses >= t.s.options.losses_max;
  CloseLease(t, lease, outcome, last ? UnitState::kPoisoned : UnitState::kReady);
  if (!last) return;
  PoisonUnit(t, t.s.units.at(unit.id),
             {"UNAVAILABLE", "LEASES_LOST",
              "unit " + std::to_string(unit.id) + " (" + std::string(UnitKindName(unit.kind)) +
                  ") was given out " + std::to_string(losses) +
                  " times to workers that then went silent, last workers/" + worker +
                  "; see why they end (their logs, memory, network), then run the same command "
                  "again"});
}

void LoseLeases(Txn& t, WorkerState& w, std::string_view outcome) {
  for (const std::string& lease : std::set<std::string>(w.leases)) LoseLease(t, lease, outcome);
}

// The worker that has been lost for longest; none when all live.
std::map<std::string, WorkerState>::iterator LongestLost(State& s) {
  auto found = s.workers.end();
  for (auto it = s.workers.begin(); it != s.workers.end(); ++it) {
    if (it->second.live || !it->second.leases.empty()) continue;
    if (found == s.workers.end() || it->second.seen_mono_ms < found->second.seen_mono_ms)
      found = it;
  }
  return found;
}

// Makes room for a new name: hosts that are named anew at each start must not fill the list.
void ForgetLostWorker(State& s) {
  if (s.workers.size() < s.options.workers_max) return;
  if (const auto lost = LongestLost(s); lost != s.workers.end()) s.workers.erase(lost);
}

absl::Status Register(Txn& t, const Synchronize& c) {
  const auto known = t.s.workers.find(c.worker);
  if (known == t.s.workers.end() && t.s.workers.size() >= t.s.options.workers_max &&
      LongestLost(t.s) == t.s.workers.end()) {
    return ExhaustedError("TOO_MANY_WORKERS", std::to_string(t.s.workers.size()) +
                                                  " workers are connected already; stop one first");
  }
  if (known != t.s.workers.end() &&
      std::find(known->second.replaced.begin(), known->second.replaced.end(), c.incarnation) !=
          known->second.replaced.end()) {
    return PreconditionError("WORKER_REPLACED", "another process has registered as workers/" +
                                                    c.worker +
                                                    " since; give each worker its own id");
  }
  // An older call that still waits here, perhaps on a connection that is long dead, knows nothing
  // of the leases given since: it would call them lost.
  if (known != t.s.workers.end() && known->second.incarnation == c.incarnation && c.call != 0 &&
      c.call < known->second.call) {
    return Error(absl::StatusCode::kAborted, "CALL_SUPERSEDED",
                 "workers/" + c.worker + " has called again since; the newer call counts");
  }
  if (known == t.s.workers.end()) ForgetLostWorker(t.s);
  WorkerState& w = t.s.workers[c.worker];
  w.call = std::max(w.call, c.call);
  const bool was_live =
      w.live && w.replay_identity == c.replay_identity && w.capture_identity == c.capture_identity;
  if (w.incarnation != c.incarnation) {
    LoseLeases(t, w, "lost");
    if (!w.incarnation.empty()) w.replaced.push_back(w.incarnation);
    if (w.replaced.size() > kReplacedMax) w.replaced.pop_front();
    w.call = c.call;
    w.models_absent.clear();
    w.models_present.clear();
  }
  w.id = c.worker;
  w.incarnation = c.incarnation;
  w.build = c.build;
  w.host_json = c.host_json;
  w.tp = c.tp;
  w.replay_identity = c.replay_identity;
  w.capture_identity = c.capture_identity;
  w.draining = c.draining;
  w.live = true;
  w.seen_mono_ms = t.now.mono_ms;
  w.seen_unix_ms = t.now.unix_ms;
  if (!was_live) ReconcileAll(t);  // captures may be planned now
  return absl::OkStatus();
}

// The wait after which a unit that nobody may take fails, and with what.
Fault StuckFault(const State& s, const UnitRow& unit, int64_t* wait_ms) {
  *wait_ms = s.options.worker_wait_ms;
  bool live = false, identity = false;
  for (const auto& [id, w] : s.workers) {
    if (!w.live || w.draining || w.replay_identity.empty()) continue;
    live = true;
    identity = identity || HasIdentity(s, w, unit);
  }
  if (!live) {
    return {"UNAVAILABLE", "WORKERS_UNAVAILABLE",
            "no worker is connected; start assay-worker with --coordinator pointing here"};
  }
  if (!identity) {
    return {"UNAVAILABLE", "KERNEL_UNAVAILABLE",
            "no connected worker has the kernels that this work was begun with; bring such a "
            "worker back or start a "
            "fresh run"};
  }
  *wait_ms = s.options.model_wait_ms;
  return {"UNAVAILABLE", "MODEL_UNAVAILABLE",
          "no connected worker has models/" + unit.model +
              "; put its files under a worker's --model-root or upload them"};
}

void EndStuckUnits(Txn& t) {
  for (const uint64_t id : std::set<uint64_t>(t.s.ready_units)) {
    const UnitRow unit = t.s.units.at(id);
    if (unit.state != UnitState::kReady) continue;
    const bool taken = std::any_of(t.s.workers.begin(), t.s.workers.end(),
                                   [&](const auto& w) { return MayTake(t.s, w.second, unit); });
    if (taken) {
      t.s.stuck_since.erase(id);
      continue;
    }
    const int64_t since = t.s.stuck_since.emplace(id, t.now.mono_ms).first->second;
    int64_t wait_ms = 0;
    const Fault fault = StuckFault(t.s, unit, &wait_ms);
    if (t.now.mono_ms - since >= wait_ms) PoisonUnit(t, unit, fault);
  }
}

// Fails a run that waits for a backend that no connected worker has. True while it waits or fails.
bool EndWithoutBackend(Txn& t, RunRow* run) {
  if (run->replay_planned || run->state == RunState::kSealing) return false;
  const std::string others = BackendsWithout(t.s, run->backend);
  if (others.empty()) return false;
  const int64_t since = t.s.run_stuck_since.emplace(run->id, t.now.mono_ms).first->second;
  if (t.now.mono_ms - since < t.s.options.model_wait_ms) return true;
  t.s.run_stuck_since.erase(run->id);
  FailRun(t, run,
          {"FAILED_PRECONDITION", "BACKEND_UNAVAILABLE",
           "no connected worker has the replay backend " + run->backend + ", only " + others +
               "; use one of them or auto, or connect such a worker and start the run again"});
  return true;
}

// Runs that cannot even choose a capture: no worker has the model.
void EndStuckRuns(Txn& t) {
  for (const std::string& id : std::set<std::string>(t.s.active_runs)) {
    RunRow run = t.s.runs.at(id);
    const OperandRow* waiting = nullptr;
    size_t index = 0;
    for (size_t i = 0; i < run.candidates.size(); ++i) {
      const CandidateRow& c = run.candidates[i];
      if (c.state == CandidateState::kWaiting && c.source.capture.empty() &&
          !c.source.head.empty()) {
        waiting = &c.source;
        index = i;
      }
    }
    if (EndWithoutBackend(t, &run)) continue;
    const OperandRow& ref = run.reference;
    const bool reference = ref.capture.empty() && !ref.head.empty() && !LiveOperands(&run).empty();
    if (run.state == RunState::kSealing || (waiting == nullptr && !reference)) {
      t.s.run_stuck_since.erase(id);
      continue;
    }
    const int64_t since = t.s.run_stuck_since.emplace(id, t.now.mono_ms).first->second;
    const bool live = std::any_of(t.s.workers.begin(), t.s.workers.end(), [](const auto& w) {
      return w.second.live && !w.second.draining && !w.second.replay_identity.empty();
    });
    if (t.now.mono_ms - since < (live ? t.s.options.model_wait_ms : t.s.options.worker_wait_ms))
      continue;
    const Fault fault =
        live ? Fault{"UNAVAILABLE", "MODEL_UNAVAILABLE",
                     "no connected worker can capture models/" +
                         (reference ? ref.model : waiting->model) +
                         "; put its files under a worker's --model-root or upload them"}
             : Fault{"UNAVAILABLE", "WORKERS_UNAVAILABLE",
                     "no worker is connected; start assay-worker with --coordinator pointing here"};
    t.s.run_stuck_since.erase(id);
    if (reference) {
      FailRun(t, &run, fault);
    } else {
      FailCandidate(t, &run, index, fault);
      Reconcile(t, id);
    }
  }
}

// Nothing is given out while the disk is low: every active run says so once, and fails by name when
// nobody makes room.
void WaitForDisk(Txn& t) {
  if (!t.s.disk_low_since) t.s.disk_low_since = t.now.mono_ms;
  const bool over = t.now.mono_ms - *t.s.disk_low_since >= t.s.options.disk_wait_ms;
  for (const std::string& id : std::set<std::string>(t.s.active_runs)) {
    RunRow run = t.s.runs.at(id);
    if (run.state == RunState::kSealing) continue;
    if (over) {
      FailRun(t, &run,
              {"RESOURCE_EXHAUSTED", "DISK_LOW",
               "the coordinator's disk stayed nearly full; make room there and start the run again "
               "(finished captures are kept)"});
      continue;
    }
    const uint64_t before = run.revision;
    t.NoteOnce(&run, "DISK_LOW",
               "the coordinator's disk is nearly full: no work is given out until there is room; "
               "delete something there, or give --min-free-bytes a smaller value");
    if (run.revision != before) t.Put(run);
  }
}

}  // namespace

bool MayTake(const State& s, const WorkerState& w, const UnitRow& unit) {
  if (!w.live || w.draining || w.replay_identity.empty()) return false;
  if (!IsReplay(unit.kind)) {
    if (w.models_absent.count(unit.model) != 0) return false;
    if (unit.kind != UnitKind::kPrepare && w.capture_identity.empty()) return false;
  } else if (!WorkerHasBackend(w, s.runs.at(unit.run).backend)) {
    return false;
  }
  return HasIdentity(s, w, unit);
}

void CloseLease(Txn& t, const std::string& lease, std::string_view outcome, UnitState next) {
  const auto found = t.s.leases.find(lease);
  if (found == t.s.leases.end()) return;
  const LeaseState state = found->second;
  t.s.leases.erase(found);
  if (const auto w = t.s.workers.find(state.worker); w != t.s.workers.end())
    w->second.leases.erase(lease);
  UnitRow unit = t.s.units.at(state.unit);
  if (unit.lease != lease) return;
  unit.state = next;
  unit.lease.clear();
  for (AttemptRow& attempt : unit.attempts) {
    if (attempt.lease == lease) {
      attempt.end_ms = t.now.unix_ms;
      attempt.outcome = std::string(outcome);
    }
  }
  t.Put(unit);
  if (next == UnitState::kReady) t.effects.wake_workers = true;
  const std::string waiting = WaitingRun(t.s, unit);
  if (!waiting.empty() && next == UnitState::kReady) {
    RunRow run = t.s.runs.at(waiting);
    t.Event(&run, EventKind::kNote, "UNIT_RELEASED",
            "unit " + std::to_string(unit.id) + " (" + std::string(UnitKindName(unit.kind)) +
                ") of workers/" + state.worker + " is to be done again: " + std::string(outcome));
    t.Put(run);
  }
}

absl::StatusOr<SyncAnswer> DoSynchronize(Txn& t, const Synchronize& c) {
  ASSAY_RETURN_IF_ERROR(Register(t, c));
  SyncAnswer answer;
  for (const LeaseResult& result : c.results)
    answer.acks.push_back(TakeResult(t, t.s.workers[c.worker], result));
  WorkerState& w = t.s.workers[c.worker];
  std::set<std::string> listed;
  for (const LeaseProgress& progress : c.leases) {
    const auto lease = t.s.leases.find(progress.lease);
    if (lease == t.s.leases.end() || lease->second.worker != c.worker ||
        lease->second.incarnation != c.incarnation) {
      const bool just_ended =
          std::any_of(answer.acks.begin(), answer.acks.end(),
                      [&](const Ack& ack) { return ack.lease == progress.lease; });
      if (!just_ended) answer.cancel.push_back(progress.lease);
      continue;
    }
    listed.insert(progress.lease);
    lease->second.expires_mono_ms = t.now.mono_ms + t.s.options.lease_ms;
    // Ranks count contexts or positions, as they say.
    if (progress.total > 0) lease->second.total = std::min(progress.total, kProgressMax);
    lease->second.done = std::clamp<int64_t>(progress.done, 0, lease->second.total);
    answer.renewed.push_back(progress.lease);
  }
  // A lease that the worker does not list never reached it: the answer that carried it was lost.
  for (const std::string& lease : std::set<std::string>(w.leases)) {
    if (listed.count(lease) == 0) LoseLease(t, lease, "lost");
  }
  Grant(t, w, c.free_slots, &answer);
  answer.next_sync_ms = w.leases.empty() ? t.s.options.idle_sync_ms : t.s.options.busy_sync_ms;
  return answer;
}

void DoTick(Txn& t, const Tick& c) {
  bool lost = false;
  for (auto& [id, w] : t.s.workers) {
    if (w.live && t.now.mono_ms - w.seen_mono_ms > t.s.options.lease_ms) {
      w.live = false;
      lost = true;
      LoseLeases(t, w, "expired");
    }
  }
  std::vector<std::string> expired;
  for (const auto& [id, lease] : t.s.leases) {
    if (lease.expires_mono_ms < t.now.mono_ms) expired.push_back(id);
  }
  for (const std::string& id : expired) LoseLease(t, id, "expired");
  if (lost) ReconcileAll(t);  // captures may have to move to other kernels
  if (c.disk_low) {
    WaitForDisk(t);
    return;  // whatever waits, waits for the disk
  }
  t.s.disk_low_since.reset();
  EndStuckUnits(t);
  EndStuckRuns(t);
}

void DoStart(Txn& t, const Start& c) {
  if (t.s.meta.store_id.empty()) t.s.meta.store_id = c.store_id;
  t.s.epoch = ++t.s.meta.epoch;
  t.ChangeMeta();
  std::vector<UnitRow> leased;
  for (const auto& [id, unit] : t.s.units) {
    if (unit.state == UnitState::kLeased) leased.push_back(unit);
  }
  for (UnitRow& unit : leased) {
    for (AttemptRow& attempt : unit.attempts) {
      if (attempt.lease == unit.lease) {
        attempt.end_ms = t.now.unix_ms;
        attempt.outcome = "coordinator restarted";
      }
    }
    unit.lease.clear();
    unit.state = UnitState::kReady;
    t.Put(unit);
  }
  for (const std::string& id : t.s.active_runs) {
    if (t.s.runs.at(id).state == RunState::kSealing) t.effects.seal.insert(id);
  }
  ReconcileAll(t);
}

}  // namespace core
}  // namespace assay
