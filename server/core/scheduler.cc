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

const std::string& PinnedIdentity(const State& s, const UnitRow& unit) {
  static const std::string none;
  if (unit.kind == UnitKind::kPrepare) return none;
  return IsReplay(unit.kind) ? s.runs.at(unit.run).replay_identity_json
                             : s.captures.at(unit.capture).identity_json;
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
  if (!was_live) ReconcileUnsettled(t);  // captures may be planned now
  return absl::OkStatus();
}

}  // namespace

bool HasIdentity(const State& s, const WorkerState& w, const UnitRow& unit) {
  const std::string& pinned = PinnedIdentity(s, unit);
  if (pinned.empty()) return true;
  return (IsReplay(unit.kind) ? w.replay_identity : w.capture_identity) == pinned;
}

bool MayTake(const State& s, const WorkerState& w, const UnitRow& unit) {
  if (!w.live || w.draining || w.replay_identity.empty()) return false;
  const auto& not_by = unit.failed_on;
  if (unit.checks != 0 && std::find(not_by.begin(), not_by.end(), w.id) != not_by.end())
    return false;
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
  if (lost) ReconcileUnsettled(t);  // captures may have to move to other kernels
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
  t.s.epoch = t.s.meta.epoch += c.epoch_step;
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
