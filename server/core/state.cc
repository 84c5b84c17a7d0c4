#include "server/core/state.h"

namespace assay {
namespace {

ReadyClass ClassOf(const State& s, const UnitRow& unit) {
  ReadyClass out;
  if (unit.checks != 0) {
    for (const std::string& worker : unit.failed_on) out.not_by += worker + "/";
  } else {
    out.particular = unit.kind == UnitKind::kRepeat || !unit.failed_on.empty();
  }
  if (unit.kind == UnitKind::kPrepare) return out;
  if (unit.run.empty()) {
    out.work = ReadyClass::Work::kCapture;
    const auto capture = s.captures.find(unit.capture);
    if (capture != s.captures.end()) out.identity = capture->second.identity_json;
    return out;
  }
  out.work = ReadyClass::Work::kReplay;
  if (const auto run = s.runs.find(unit.run); run != s.runs.end()) {
    out.identity = run->second.replay_identity_json;
    out.backend = run->second.backend;
  }
  return out;
}

bool IsOpen(UnitState state) {
  return state == UnitState::kBlocked || state == UnitState::kReady || state == UnitState::kLeased;
}

void Count(UnitCounts* counts, UnitState state, int64_t by) {
  counts->total += by;
  counts->open += IsOpen(state) ? by : 0;
  counts->blocked += state == UnitState::kBlocked ? by : 0;
  counts->done += state == UnitState::kDone ? by : 0;
}

std::set<std::string> UsedBy(const RunRow& run) {
  std::set<std::string> used;
  if (IsTerminal(run.state)) return used;
  const auto add = [&](const OperandRow& op) {
    for (const std::string* id : {&op.model, &op.capture, &op.given_capture}) {
      if (!id->empty()) used.insert(*id);
    }
  };
  add(run.reference);
  for (const CandidateRow& candidate : run.candidates) add(candidate.source);
  return used;
}

void Reindex(State& s, const std::string& run, const std::set<std::string>& before,
             const std::set<std::string>& after) {
  for (const std::string& id : before) {
    if (after.count(id) != 0) continue;
    const auto users = s.users_of.find(id);
    users->second.erase(run);
    if (users->second.empty()) s.users_of.erase(users);
  }
  for (const std::string& id : after) {
    if (before.count(id) == 0) s.users_of[id].insert(run);
  }
}

void EraseActive(State& s, const RunRow& run) {
  if (s.active_runs.erase(run.id) == 0) return;
  const auto count = s.active_runs_of.find(run.principal);
  if (--count->second == 0) s.active_runs_of.erase(count);
}

struct Absorber {
  State& s;

  void operator()(const SuiteRow& r) { s.suites[r.id] = r; }
  void operator()(const ModelRow& r) { s.models[r.id] = r; }
  void operator()(const HeadRow& r) { s.heads[r.id] = r; }
  void operator()(const CaptureRow& r) { s.captures[r.id] = r; }
  void operator()(const CaptureFileRow& r) {
    FileMap& files = s.files[r.capture][r.generation == 0 ? 0 : 1];
    if (r.sha256.empty()) {
      files.erase(r.index);
    } else {
      files[r.index] = r;
    }
  }
  void operator()(const RunRow& r) {
    RunRow& row = s.runs[r.id];
    const std::set<std::string> before = row.id.empty() ? std::set<std::string>() : UsedBy(row);
    const bool moves = !row.id.empty() && (row.replay_identity_json != r.replay_identity_json ||
                                           row.backend != r.backend);
    if (!row.id.empty() && --s.runs_by_state[row.state] == 0) s.runs_by_state.erase(row.state);
    ++s.runs_by_state[r.state];
    if (r.state == RunState::kPending || r.state == RunState::kQueued) {
      s.waiting_runs[r.serial] = r.create_ms;
    } else {
      s.waiting_runs.erase(r.serial);
    }
    row = r;
    Reindex(s, r.id, before, UsedBy(r));
    if (moves) {
      for (const uint64_t id : s.units_of_run[r.id]) {
        const UnitRow& unit = s.units.at(id);
        if (unit.state == UnitState::kReady) s.ready.Insert(id, ClassOf(s, unit), unit.model);
      }
    }
    s.run_order[r.serial] = r.id;
    if (IsTerminal(r.state)) {
      EraseActive(s, r);
      s.unsettled_runs.erase(r.id);
      s.run_stuck_since.erase(r.id);
      s.noted.erase(s.noted.lower_bound({r.id, ""}), s.noted.lower_bound({r.id + '\0', ""}));
    } else {
      if (s.active_runs.insert(r.id).second) ++s.active_runs_of[r.principal];
    }
  }
  void operator()(const UnitRow& r) {
    UnitRow& row = s.units[r.id];
    if (row.id != 0) --s.units_by_state[{row.kind, row.state}];
    ++s.units_by_state[{r.kind, r.state}];
    if (!r.run.empty()) {
      UnitCounts& counts = s.unit_counts[r.run];
      if (row.id != 0) Count(&counts, row.state, -1);
      Count(&counts, r.state, 1);
    }
    row = r;
    if (r.state == UnitState::kReady) {
      s.ready_units.insert(r.id);
      s.ready.Insert(r.id, ClassOf(s, r), r.model);
    } else {
      s.ready_units.erase(r.id);
      s.ready.Erase(r.id);
    }
    if (!r.run.empty()) s.units_of_run[r.run].insert(r.id);
    if (!r.capture.empty() && r.run.empty()) s.units_of_capture[r.capture].insert(r.id);
    if (r.kind == UnitKind::kPrepare) s.units_of_model[r.model].insert(r.id);
  }
  void operator()(const ReportRow& r) {
    s.reports[r.id] = r;
    if (r.fingerprint.empty()) return;
    // Fresh runs may have sealed the same work anew: the newest counts, in whatever order rows
    // come.
    const auto [it, added] = s.report_of_work.emplace(r.fingerprint, r.id);
    if (added) return;
    const ReportRow& other = s.reports.at(it->second);
    if (std::pair(r.create_ms, r.id) > std::pair(other.create_ms, other.id)) it->second = r.id;
  }
  void operator()(const ReceiptRow& r) { s.receipts[r.id] = r; }
  void operator()(const RequestIdRow& r) { s.requests[r.key] = r; }
  void operator()(const MetaRow& r) { s.meta = r; }
  void operator()(const EventRow&) {}
  void operator()(const EvidenceRow&) {}
  void operator()(const LogNodeRow&) {}
};

void ForgetRun(State& s, const RunRow& run) {
  const auto it = s.runs.find(run.id);
  if (it == s.runs.end()) return;
  if (--s.runs_by_state[it->second.state] == 0) s.runs_by_state.erase(it->second.state);
  Reindex(s, run.id, UsedBy(it->second), {});
  s.waiting_runs.erase(run.serial);
  s.run_order.erase(run.serial);
  EraseActive(s, run);
  s.unsettled_runs.erase(run.id);
  s.run_stuck_since.erase(run.id);
  s.unit_counts.erase(run.id);
  s.units_of_run.erase(run.id);
  s.runs.erase(it);
}

void Drop(std::map<std::string, std::set<uint64_t>>* index, const std::string& key, uint64_t id) {
  if (const auto it = index->find(key); it != index->end()) it->second.erase(id);
}

void ForgetUnit(State& s, const UnitRow& unit) {
  const auto it = s.units.find(unit.id);
  if (it == s.units.end()) return;
  --s.units_by_state[{it->second.kind, it->second.state}];
  if (const auto counts = s.unit_counts.find(it->second.run); counts != s.unit_counts.end())
    Count(&counts->second, it->second.state, -1);
  s.ready_units.erase(unit.id);
  s.ready.Erase(unit.id);
  Drop(&s.units_of_run, it->second.run, unit.id);
  Drop(&s.units_of_capture, it->second.capture, unit.id);
  Drop(&s.units_of_model, it->second.model, unit.id);
  s.units.erase(it);
}

}  // namespace

void State::Forget(const Row& row) {
  if (const auto* run = std::get_if<RunRow>(&row)) {
    ForgetRun(*this, *run);
  } else if (const auto* unit = std::get_if<UnitRow>(&row)) {
    ForgetUnit(*this, *unit);
  } else if (const auto* request = std::get_if<RequestIdRow>(&row)) {
    requests.erase(request->key);
  }
}

void State::Absorb(const Row& row) { std::visit(Absorber{*this}, row); }

void Txn::Event(RunRow* run, EventKind kind, std::string reason, std::string message) {
  EventRow event;
  event.run = run->id;
  event.revision = s.meta.next_revision++;
  event.time_ms = now.unix_ms;
  event.kind = kind;
  event.reason = std::move(reason);
  event.message = std::move(message);
  meta_changed_ = true;
  run->revision = event.revision;
  rows.emplace_back(std::move(event));
  effects.changed.insert(run->id);
}

void Txn::NoteOnce(RunRow* run, std::string reason, std::string message) {
  if (s.noted.emplace(run->id, message).second) {
    Event(run, EventKind::kNote, std::move(reason), std::move(message));
  }
}

std::vector<Row> Txn::Finish() {
  if (meta_changed_) rows.emplace_back(s.meta);
  return std::move(rows);
}

}  // namespace assay
