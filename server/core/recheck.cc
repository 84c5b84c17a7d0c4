// Sampled re-execution: some units are done again by another worker and the bytes compared.
//
// A unit that checks another one is open until it ends, so its run is not sealed before. When two
// workers differ a third one decides; the accepted result stands or the work fails by name.

#include <algorithm>

#include "server/core/plan.h"
#include "server/core/steps.h"
#include "storage/base/digest.h"

namespace assay::core {
namespace {

constexpr uint32_t kPerMille = 1000;

// The same units of a store at every start, and not to be foreseen by a worker.
bool Sampled(const State& s, const UnitRow& unit) {
  if (s.options.recheck_per_mille <= 0) return false;
  const DigestBytes digest = Sha256Of(s.meta.store_id + "/" + std::to_string(unit.id));
  const uint32_t value = (uint32_t{digest[0]} << 16) | (uint32_t{digest[1]} << 8) | digest[2];
  return value % kPerMille < static_cast<uint32_t>(s.options.recheck_per_mille);
}

UnitRow CheckOf(const UnitRow& original, std::vector<std::string> not_by) {
  UnitRow check;
  check.kind = original.kind;
  check.run = original.run;
  check.model = original.model;
  check.capture = original.capture;
  check.contexts = original.contexts;
  check.candidates = original.candidates;
  check.state = UnitState::kReady;
  check.checks = original.id;
  check.failed_on = std::move(not_by);
  return check;
}

std::string WorkerOf(const UnitRow& unit) {
  for (const AttemptRow& attempt : unit.attempts) {
    if (attempt.outcome == "done") return attempt.worker;
  }
  return "";
}

// Finished checks of `original`, without `but`.
std::vector<const UnitRow*> OtherChecks(const State& s, const UnitRow& original, uint64_t but) {
  const auto& map = original.run.empty() ? s.units_of_capture : s.units_of_run;
  std::vector<const UnitRow*> out;
  const auto ids = map.find(original.run.empty() ? original.capture : original.run);
  if (ids == map.end()) return out;
  for (const uint64_t id : ids->second) {
    const UnitRow& unit = s.units.at(id);
    if (unit.checks == original.id && id != but && unit.state == UnitState::kDone)
      out.push_back(&unit);
  }
  return out;
}

void Note(Txn& t, const UnitRow& original, const char* reason, const std::string& text) {
  const std::string waiting = WaitingRun(t.s, original);
  if (waiting.empty()) return;
  RunRow run = t.s.runs.at(waiting);
  t.Event(&run, EventKind::kNote, reason, text);
  t.Put(run);
}

std::string Name(const UnitRow& unit) {
  return "unit " + std::to_string(unit.id) + " (" + std::string(UnitKindName(unit.kind)) + ")";
}

// The accepted result cannot be trusted: what came of it fails, and a capture is forgotten.
void Distrust(Txn& t, const UnitRow& original, const std::string& why) {
  const Fault fault{"DATA_LOSS", "RESULT_DISPUTED",
                    Name(original) + ", first done by workers/" + WorkerOf(original) + ": " + why +
                        ". All results are kept as evidence; find the faulty machine, stop its "
                        "worker and start a fresh run"};
  if (!original.run.empty()) {
    RunRow run = t.s.runs.at(original.run);
    return FailRun(t, &run, fault);
  }
  std::vector<CaptureFileRow> files;
  for (const int64_t index : original.contexts) {
    const FileMap& map = t.s.files[original.capture][0];
    if (const auto file = map.find(index); file != map.end()) files.push_back(file->second);
  }
  for (CaptureFileRow& file : files) {
    file.sha256.clear();
    t.Put(file);
  }
  FailOperands(t, original, fault);
}

void ReconcileAfter(Txn& t, const UnitRow& check) {
  if (check.run.empty()) {
    ReconcileUsers(t, check);
  } else if (t.s.unit_counts[check.run].open == 0) {
    Reconcile(t, check.run);
  }
}

}  // namespace

void MaybeRecheck(Txn& t, const UnitRow& done) {
  const bool kind = done.kind == UnitKind::kCapture || done.kind == UnitKind::kReplay;
  if (!kind || done.checks != 0 || !Sampled(t.s, done)) return;
  UnitRow check = CheckOf(done, {WorkerOf(done)});
  const bool anybody = std::any_of(t.s.workers.begin(), t.s.workers.end(),
                                   [&](const auto& w) { return MayTake(t.s, w.second, check); });
  if (!anybody) {
    ++t.s.counters.rechecks_impossible;
    return;
  }
  AddUnit(t, std::move(check));
}

void CompareRecheck(Txn& t, const UnitRow& check) {
  const UnitRow original = t.s.units.at(check.checks);
  bool disputed = false, outvoted = false;
  for (const UnitRow* other : OtherChecks(t.s, original, check.id)) {
    disputed = disputed || other->result_sha256 != original.result_sha256;
    outvoted = outvoted || other->result_sha256 == check.result_sha256;
  }
  const std::string worker = WorkerOf(check);
  if (check.result_sha256 == original.result_sha256) {
    ++t.s.counters.rechecks_same;
    if (disputed) {
      Note(t, original, "RECHECK_RESOLVED",
           Name(original) + ": workers/" + worker + " returned the accepted bytes as well; the " +
               "result that differed is kept as evidence");
    }
    return ReconcileAfter(t, check);
  }
  ++t.s.counters.rechecks_different;
  std::string lease;
  for (const AttemptRow& attempt : check.attempts) {
    if (attempt.outcome == "done") lease = attempt.lease;
  }
  t.Put(EvidenceRow{original.id, lease, worker, check.result_json, t.now.unix_ms});
  if (outvoted) {
    Distrust(t, original, "two other workers returned the same other bytes");
    return ReconcileAfter(t, check);
  }
  std::vector<std::string> not_by = check.failed_on;
  not_by.push_back(worker);
  AddUnit(t, CheckOf(original, std::move(not_by)));
  Note(t, original, "RECHECK_DIFFERS",
       Name(original) + ": workers/" + worker + " and workers/" + WorkerOf(original) +
           " returned different bytes; nothing is sealed until a third worker has decided");
}

void EndRecheck(Txn& t, UnitRow check, const Fault& error) {
  const UnitRow original = t.s.units.at(check.checks);
  check.state = UnitState::kDropped;
  check.error = error;
  t.Put(check);
  const auto others = OtherChecks(t.s, original, check.id);
  const bool disputed = std::any_of(others.begin(), others.end(), [&](const UnitRow* other) {
    return other->result_sha256 != original.result_sha256;
  });
  if (disputed) {
    Distrust(t, original, "another worker returned other bytes, and no third one could decide");
  } else {
    ++t.s.counters.rechecks_impossible;
    Note(t, original, "RECHECK_DROPPED",
         Name(original) + " could not be done again by another worker: " + error.message);
  }
  ReconcileAfter(t, check);
}

bool RechecksEnded(const State& s, const std::string& capture) {
  const auto ids = s.units_of_capture.find(capture);
  return ids == s.units_of_capture.end() ||
         std::none_of(ids->second.begin(), ids->second.end(), [&](uint64_t id) {
           const UnitRow& unit = s.units.at(id);
           return unit.checks != 0 && IsOpen(unit.state);
         });
}

}  // namespace assay::core
