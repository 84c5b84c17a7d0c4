#include "server/core/state.h"

namespace assay {
namespace {

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
    s.runs[r.id] = r;
    s.run_order[r.serial] = r.id;
    if (IsTerminal(r.state)) {
      s.active_runs.erase(r.id);
      s.run_stuck_since.erase(r.id);
      s.noted.erase(s.noted.lower_bound({r.id, ""}), s.noted.lower_bound({r.id + '\0', ""}));
    } else {
      s.active_runs.insert(r.id);
    }
  }
  void operator()(const UnitRow& r) {
    s.units[r.id] = r;
    if (r.state == UnitState::kReady) {
      s.ready_units.insert(r.id);
    } else {
      s.ready_units.erase(r.id);
      s.stuck_since.erase(r.id);
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

}  // namespace

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
