// What a run needs next: repeats of sentinel contexts, REPLAY and NOISE units, SEALING.

#include <algorithm>
#include <optional>

#include "server/core/plan.h"
#include "server/core/steps.h"

namespace assay::core {
namespace {

void EnsureRepeats(Txn& t, const RunRow& run, const OperandRow& op) {
  if (!run.repeat_sentinels || run.sentinels.empty() || op.capture.empty() ||
      !op.given_capture.empty())
    return;
  const CaptureRow& capture = t.s.captures.at(op.capture);
  if (capture.origin != "native" || !HasFiles(t.s, op.capture, 0, run.sentinels)) return;
  // A repeat that was poisoned is not tried again by runs that were there then: their noise floor
  // says "not measured".
  if (const auto it = t.s.units_of_capture.find(op.capture); it != t.s.units_of_capture.end()) {
    for (const uint64_t id : it->second) {
      const UnitRow& unit = t.s.units.at(id);
      if (unit.kind == UnitKind::kRepeat && unit.state == UnitState::kPoisoned &&
          unit.id > run.serial) {
        return;
      }
    }
  }
  // Kernels that are gone cannot repeat anything.
  const bool can = std::any_of(t.s.workers.begin(), t.s.workers.end(), [&](const auto& w) {
    return w.second.live && w.second.capture_identity == capture.identity_json &&
           w.second.models_absent.count(capture.model) == 0;
  });
  if (can) EnsureCaptureUnits(t, run, capture, UnitKind::kRepeat, run.sentinels);
}

void PlanReplay(Txn& t, RunRow* run) {
  // The unit's document names a file per operand and context.
  const auto operands = static_cast<int64_t>(LiveOperands(run).size());
  const int64_t contexts_max =
      std::min(run->unit_contexts, t.s.options.unit_files_max / std::max<int64_t>(1, operands));
  for (auto& part : Cut(run->contexts, *run, contexts_max, t.s.options.unit_tokens_max)) {
    UnitRow unit;
    unit.kind = UnitKind::kReplay;
    unit.run = run->id;
    unit.contexts = std::move(part);
    AddUnit(t, std::move(unit));
  }
  run->replay_planned = true;
}

// Contexts whose repeat has another digest than the first capture.
std::vector<int64_t> Differing(const State& s, const RunRow& run, const OperandRow& op) {
  std::vector<int64_t> out;
  const auto files = s.files.find(op.capture);
  if (files == s.files.end()) return out;
  for (const int64_t index : run.sentinels) {
    const auto first = files->second[0].find(index);
    const auto repeat = files->second[1].find(index);
    if (first != files->second[0].end() && repeat != files->second[1].end() &&
        first->second.sha256 != repeat->second.sha256) {
      out.push_back(index);
    }
  }
  return out;
}

void PlanNoise(Txn& t, RunRow* run) {
  std::set<std::string> done;
  if (run->repeat_sentinels) {
    for (const OperandRow* op : LiveOperands(run)) {
      if (!op->given_capture.empty() || !done.insert(op->capture).second) continue;
      for (auto& part :
           Cut(Differing(t.s, *run, *op), *run, run->unit_contexts, t.s.options.unit_tokens_max)) {
        UnitRow unit;
        unit.kind = UnitKind::kNoise;
        unit.run = run->id;
        unit.capture = op->capture;
        unit.contexts = std::move(part);
        unit.state = UnitState::kReady;
        AddUnit(t, std::move(unit));
      }
    }
  }
  run->noise_planned = true;
}

const UnitCounts& CountsOf(const State& s, const RunRow& run) {
  static const UnitCounts none;
  const auto it = s.unit_counts.find(run.id);
  return it == s.unit_counts.end() ? none : it->second;
}

// READY when every live operand has the unit's contexts.
void Unblock(Txn& t, RunRow* run) {
  if (CountsOf(t.s, *run).blocked == 0) return;
  const auto it = t.s.units_of_run.find(run->id);
  if (it == t.s.units_of_run.end()) return;
  for (const uint64_t id : std::set<uint64_t>(it->second)) {
    UnitRow unit = t.s.units.at(id);
    if (unit.state != UnitState::kBlocked) continue;
    bool ready = true;
    for (const OperandRow* op : LiveOperands(run))
      ready = ready && HasFiles(t.s, op->capture, 0, unit.contexts);
    if (!ready) continue;
    unit.state = UnitState::kReady;
    t.effects.wake_workers = true;
    t.Put(unit);
  }
}

bool RepeatsEnded(const State& s, const RunRow& run, const OperandRow& op) {
  const auto it = s.units_of_capture.find(op.capture);
  if (!run.repeat_sentinels || it == s.units_of_capture.end()) return true;
  return std::none_of(it->second.begin(), it->second.end(), [&](uint64_t id) {
    const UnitRow& unit = s.units.at(id);
    return unit.kind == UnitKind::kRepeat && IsOpen(unit.state);
  });
}

bool UnitsEnded(const State& s, const RunRow& run) { return CountsOf(s, run).open == 0; }

// Whether a repeat that the run would like is still to be made, by a worker that may come.
bool WantsRepeat(const State& s, RunRow* run) {
  if (!run->repeat_sentinels || run->sentinels.empty() || run->noise_planned) return false;
  const std::vector<OperandRow*> live = LiveOperands(run);
  return std::any_of(live.begin(), live.end(), [&](const OperandRow* op) {
    return op->given_capture.empty() && !HasFiles(s, op->capture, 1, run->sentinels);
  });
}

// Workers who come or go matter to runs that wait for captures.
void NoteWhetherSettled(Txn& t, RunRow* run) {
  const bool waits =
      !run->replay_planned || CountsOf(t.s, *run).blocked > 0 || WantsRepeat(t.s, run);
  if (waits) {
    t.s.unsettled_runs.insert(run->id);
  } else {
    t.s.unsettled_runs.erase(run->id);
    t.s.run_stuck_since.erase(run->id);
  }
}

void BeginSealing(Txn& t, RunRow* run) {
  bool any = false;
  for (CandidateRow& candidate : run->candidates) {
    if (candidate.state != CandidateState::kWaiting) continue;
    candidate.state = CandidateState::kComputed;
    any = true;
  }
  t.s.unsettled_runs.erase(run->id);
  t.s.run_stuck_since.erase(run->id);
  run->seal_ms = t.now.unix_ms;
  SetRunState(t, run, RunState::kSealing);
  t.Put(*run);
  if (any) {
    t.effects.seal.insert(run->id);
  } else {
    FinishSealing(t, run);
  }
}

}  // namespace

std::vector<OperandRow*> LiveOperands(RunRow* run) {
  std::vector<OperandRow*> out;
  for (CandidateRow& candidate : run->candidates) {
    if (candidate.state == CandidateState::kWaiting) out.push_back(&candidate.source);
  }
  if (!out.empty()) out.insert(out.begin(), &run->reference);
  return out;
}

namespace {

template <class Pred>
bool AnyLiveOperand(const RunRow& run, const Pred& pred) {
  bool live = false, found = false;
  for (const CandidateRow& candidate : run.candidates) {
    if (candidate.state != CandidateState::kWaiting) continue;
    live = true;
    found = found || pred(candidate.source);
  }
  return found || (live && pred(run.reference));
}

}  // namespace

bool NeedsModel(const RunRow& run, const std::string& model) {
  return AnyLiveOperand(run, [&](const OperandRow& op) { return op.model == model; });
}

bool NeedsCapture(const RunRow& run, const std::string& capture) {
  return AnyLiveOperand(run, [&](const OperandRow& op) { return op.capture == capture; });
}

std::string WaitingRun(const State& s, const UnitRow& unit) {
  if (!unit.run.empty()) return s.active_runs.count(unit.run) != 0 ? unit.run : "";
  const bool prepare = unit.kind == UnitKind::kPrepare;
  const auto users = s.users_of.find(prepare ? unit.model : unit.capture);
  if (users == s.users_of.end()) return "";
  for (const std::string& id : users->second) {
    ++s.counters.rows_visited;
    const RunRow& run = s.runs.at(id);
    if (run.state == RunState::kSealing) continue;
    if (prepare ? NeedsModel(run, unit.model) : NeedsCapture(run, unit.capture)) return id;
  }
  return "";
}

void Reconcile(Txn& t, const std::string& id) {
  ++t.s.counters.rows_visited;
  RunRow run = t.s.runs.at(id);
  if (run.state != RunState::kQueued && run.state != RunState::kRunning) return;
  t.s.unsettled_runs.insert(id);  // until all of what follows has been done
  const std::string before = EncodeRow(run);
  if (LiveOperands(&run).empty()) {
    BeginSealing(t, &run);
    return;
  }
  // A backend that nobody has is not worth a capture; the wait for it ends in scheduler.cc.
  if (!run.replay_planned && !BackendsWithout(t.s, run.backend).empty()) return;
  bool planned = AdvanceOperand(t, &run, &run.reference);
  if (planned) {
    if (const auto fault = CheckHeads(t.s, run, run.reference, true))
      return FailRun(t, &run, *fault);
  }
  for (size_t i = 0; i < run.candidates.size(); ++i) {
    CandidateRow& candidate = run.candidates[i];
    if (candidate.state != CandidateState::kWaiting) continue;
    const bool advanced = AdvanceOperand(t, &run, &candidate.source);
    planned = planned && advanced;
    if (candidate.source.head.empty() || run.reference.head.empty()) continue;
    if (const auto fault = CheckHeads(t.s, run, candidate.source, false)) {
      t.Put(run);
      FailCandidate(t, &run, i, *fault);
      return Reconcile(t, id);
    }
  }
  SettleByMaxima(t, &run);
  if (planned) {
    if (!run.replay_planned) PlanReplay(t, &run);
    for (const OperandRow* op : LiveOperands(&run)) EnsureRepeats(t, run, *op);
    Unblock(t, &run);
    bool repeats = UnitsEnded(t.s, run);
    for (const OperandRow* op : LiveOperands(&run))
      repeats = repeats && RepeatsEnded(t.s, run, *op) && RechecksEnded(t.s, op->capture);
    if (repeats && !run.noise_planned) PlanNoise(t, &run);
    if (repeats && run.noise_planned && UnitsEnded(t.s, run)) return BeginSealing(t, &run);
  }
  if (EncodeRow(run) != before) t.Put(run);
  NoteWhetherSettled(t, &run);
}

void ReconcileUsers(Txn& t, const UnitRow& unit) {
  std::set<std::string> runs;
  for (const std::string* id : {&unit.model, &unit.capture}) {
    if (const auto users = t.s.users_of.find(*id); users != t.s.users_of.end())
      runs.insert(users->second.begin(), users->second.end());
  }
  for (const std::string& id : runs) Reconcile(t, id);
}

void ReconcileUnsettled(Txn& t) {
  for (const std::string& id : std::set<std::string>(t.s.unsettled_runs)) Reconcile(t, id);
}

void ReconcileAll(Txn& t) {
  for (const std::string& id : std::set<std::string>(t.s.active_runs)) Reconcile(t, id);
}

void FailOperands(Txn& t, const UnitRow& unit, const Fault& error) {
  const auto hit = [&](const OperandRow& op) {
    if (unit.kind != UnitKind::kPrepare) return op.capture == unit.capture;
    return op.model == unit.model ||
           (!op.capture.empty() && t.s.captures.at(op.capture).model == unit.model);
  };
  const auto users = t.s.users_of.find(unit.kind == UnitKind::kPrepare ? unit.model : unit.capture);
  if (users == t.s.users_of.end()) return;
  for (const std::string& id : std::set<std::string>(users->second)) {
    RunRow run = t.s.runs.at(id);
    if (run.state == RunState::kSealing) continue;
    if (!LiveOperands(&run).empty() && hit(run.reference)) {
      Fault fault = error;
      fault.message = "reference: " + error.message;
      FailRun(t, &run, fault);
      continue;
    }
    for (size_t i = 0; i < run.candidates.size(); ++i) {
      run = t.s.runs.at(id);
      if (!IsTerminal(run.state) && run.candidates[i].state == CandidateState::kWaiting &&
          hit(run.candidates[i].source)) {
        FailCandidate(t, &run, i, error);
      }
    }
    Reconcile(t, id);
  }
}

}  // namespace assay::core
