// Results of units: accepted once, late and different ones recognised.

#include <algorithm>

#include "server/core/steps.h"
#include "storage/base/digest.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::core {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 40;
constexpr int64_t kBytesMax = int64_t{1} << 53;

// 0 when the worker does not say.
absl::StatusOr<double> MaxAbsOf(const JsonFields& fields) {
  if (!fields.Has("max_abs")) return 0.0;
  return fields.Number("max_abs");
}

absl::Status ApplyPrepare(Txn& t, const UnitRow& unit, const Json& result) {
  const JsonFields fields(result, "prepare result");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const Json* facts, fields.Object("facts"));
  ASSAY_ASSIGN_OR_RETURN(const Json* head_json, fields.Object("head"));
  const JsonFields head_fields(*head_json, "prepare result: head");
  HeadRow head;
  ASSAY_ASSIGN_OR_RETURN(head.id, head_fields.Sha256("content_sha256"));
  ASSAY_ASSIGN_OR_RETURN(head.file_sha256, head_fields.Sha256("sha256"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t bytes, head_fields.Int("bytes", 1, kBytesMax));
  head.file_bytes = static_cast<uint64_t>(bytes);
  ASSAY_ASSIGN_OR_RETURN(head.tensor, head_fields.String("tensor"));
  head.dtype = "BF16";
  ASSAY_ASSIGN_OR_RETURN(head.vocab, head_fields.Int("vocab", 1, kCountMax));
  ASSAY_ASSIGN_OR_RETURN(head.hidden, head_fields.Int("hidden", 1, kCountMax));
  head.create_ms = t.now.unix_ms;
  ASSAY_ASSIGN_OR_RETURN(head.max_abs, MaxAbsOf(head_fields));
  Json kept = *facts;
  // What the head was before it was rounded belongs to the model: two models may share a head.
  if (head_fields.Has("storage_format")) {
    ASSAY_ASSIGN_OR_RETURN(kept["head_storage_format"], head_fields.String("storage_format"));
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string facts_json, CanonicalJson(kept));
  if (t.s.heads.count(head.id) == 0) t.Put(head);
  ModelRow model = t.s.models.at(unit.model);
  model.facts_json = facts_json;
  model.head = head.id;
  t.Put(model);
  return absl::OkStatus();
}

absl::Status ApplyFiles(Txn& t, const UnitRow& unit, const Json& result) {
  const JsonFields fields(result, "capture result");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const Json* files, fields.Array("files"));
  const CaptureRow& capture = t.s.captures.at(unit.capture);
  // The lease was given for the kernels that the worker announced; these are the ones that ran.
  ASSAY_ASSIGN_OR_RETURN(const Json* identity, fields.Object("identity"));
  ASSAY_ASSIGN_OR_RETURN(const std::string identity_json, CanonicalJson(*identity));
  if (identity_json != capture.identity_json) {
    return PreconditionError(
        "KERNEL_DIFFERS", "capture result: made by other kernels than captures/" + capture.id +
                              " was begun with; restart the worker, so that it says what it has");
  }
  const int64_t rows = t.s.suites.at(capture.suite).context_length - 1;
  std::vector<CaptureFileRow> out;
  std::set<int64_t> indices;
  for (const Json& json : *files) {
    const JsonFields file(json, "capture result: file");
    ASSAY_RETURN_IF_ERROR(file.CheckObject());
    CaptureFileRow row;
    row.capture = unit.capture;
    row.generation = unit.kind == UnitKind::kRepeat ? 1 : 0;
    ASSAY_ASSIGN_OR_RETURN(row.index, file.Int("index", 0, kCountMax));
    ASSAY_ASSIGN_OR_RETURN(row.sha256, file.Sha256("sha256"));
    ASSAY_ASSIGN_OR_RETURN(const int64_t bytes, file.Int("bytes", 1, kBytesMax));
    row.bytes = static_cast<uint64_t>(bytes);
    ASSAY_ASSIGN_OR_RETURN(row.rows, file.Int("rows", rows, rows));
    ASSAY_ASSIGN_OR_RETURN(row.width, file.Int("width", 1, kCountMax));
    ASSAY_ASSIGN_OR_RETURN(row.max_abs, MaxAbsOf(file));
    indices.insert(row.index);
    out.push_back(std::move(row));
  }
  if (indices != std::set<int64_t>(unit.contexts.begin(), unit.contexts.end()) ||
      out.size() != unit.contexts.size()) {
    return InvalidError("RESULT_INVALID",
                        "capture result: the files are not those of the unit's contexts");
  }
  const auto model = t.s.models.find(capture.model);
  if (model != t.s.models.end() && !model->second.head.empty()) {
    const int64_t hidden = t.s.heads.at(model->second.head).hidden;
    for (const CaptureFileRow& row : out) {
      if (row.width == hidden) continue;
      return InvalidError("RESULT_INVALID", "capture result: context " + std::to_string(row.index) +
                                                " has " + std::to_string(row.width) +
                                                " columns, the model's head " +
                                                std::to_string(hidden));
    }
  }
  for (const CaptureFileRow& row : out) t.Put(row);
  return absl::OkStatus();
}

// A check must have been made with what the first result was made with, or the two say nothing of
// each other.
absl::Status CheckMadeAlike(const State& s, const UnitRow& unit, const Json& result) {
  const JsonFields fields(result, "result of a check");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  if (!unit.run.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const std::string backend, fields.String("backend"));
    if (backend == s.runs.at(unit.run).settled_backend) return absl::OkStatus();
    return PreconditionError("BACKEND_DIFFERS", "unit " + std::to_string(unit.id) + " used the " +
                                                    backend + " backend, this run's is " +
                                                    s.runs.at(unit.run).settled_backend +
                                                    "; it is done again");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* identity, fields.Object("identity"));
  ASSAY_ASSIGN_OR_RETURN(const std::string identity_json, CanonicalJson(*identity));
  if (identity_json == s.captures.at(unit.capture).identity_json) return absl::OkStatus();
  return PreconditionError("KERNEL_DIFFERS",
                           "capture result: made by other kernels than captures/" + unit.capture +
                               " was begun with; restart the "
                               "worker, so that it says what it has");
}

absl::Status CheckReplay(const Json& result) {
  const JsonFields fields(result, "replay result");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_RETURN_IF_ERROR(fields.Sha256("sha256").status());
  return fields.Int("bytes", 1, kBytesMax).status();
}

// Unit and attempt that a lease id of any epoch names; 0 when it is none.
uint64_t UnitOfLease(const State& s, const std::string& lease) {
  const size_t first = lease.find('-');
  const size_t second = lease.rfind('-');
  if (first == std::string::npos || second <= first) return 0;
  const std::string digits = lease.substr(first + 1, second - first - 1);
  if (digits.empty() || digits.size() > 18 ||
      !std::all_of(digits.begin(), digits.end(),
                   [](unsigned char c) { return c >= '0' && c <= '9'; })) {
    return 0;
  }
  const uint64_t id = std::stoull(digits);
  const auto unit = s.units.find(id);
  if (unit == s.units.end()) return 0;
  return std::any_of(unit->second.attempts.begin(), unit->second.attempts.end(),
                     [&](const AttemptRow& a) { return a.lease == lease; })
             ? id
             : 0;
}

Ack LateResult(Txn& t, const WorkerState& worker, const LeaseResult& outcome) {
  const uint64_t id = UnitOfLease(t.s, outcome.lease);
  if (id != 0 && !outcome.result_json.empty() && t.s.units.at(id).state == UnitState::kDone) {
    const auto json = ParseJson(outcome.result_json, "late result");
    const std::string digest = json.ok() ? Sha256Hex(CanonicalJson(*json).value_or("")) : "";
    if (digest == t.s.units.at(id).result_sha256) {
      ++t.s.counters.results_duplicate;
      return {outcome.lease, AckKind::kDuplicate, "the unit was done with the same result"};
    }
    ++t.s.counters.results_different;
    t.Put(EvidenceRow{id, outcome.lease, worker.id, outcome.result_json, t.now.unix_ms});
    return {outcome.lease, AckKind::kDifferent,
            "the unit was done with another result; both are kept"};
  }
  ++t.s.counters.results_fenced;
  return {outcome.lease, AckKind::kStale, "the lease is not held any more"};
}

void NoteAttempt(UnitRow* unit, const LeaseResult& outcome, std::string_view how, const Now& now) {
  for (AttemptRow& attempt : unit->attempts) {
    if (attempt.lease != outcome.lease) continue;
    attempt.end_ms = now.unix_ms;
    attempt.outcome = std::string(how);
    attempt.counters_json = outcome.counters_json;
    attempt.wall_ms = outcome.wall_ms;
    attempt.rank_attempts = outcome.rank_attempts;
  }
}

// The candidate that an operand or head id of a replay unit names ("cand3", "hcand3").
bool CandidateOf(std::string operand, size_t* index) {
  if (operand.rfind("hcand", 0) == 0) operand.erase(0, 1);
  if (operand.rfind("cand", 0) != 0 || operand.size() < 5 || operand.size() > 8) return false;
  size_t value = 0;
  for (const char c : operand.substr(4)) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<size_t>(c - '0');
  }
  *index = value;
  return true;
}

// A refused row in one candidate fails that candidate alone; the unit goes on without it. False
// when the operand is no candidate of this lease. Units that ran side by side may all name a
// candidate: the first one fails it, the others merely go on.
bool BlameCandidate(Txn& t, const UnitRow& unit, const LeaseResult& outcome) {
  size_t index = 0;
  if (unit.kind != UnitKind::kReplay || !CandidateOf(outcome.error_operand, &index)) return false;
  if (std::find(unit.candidates.begin(), unit.candidates.end(), index) == unit.candidates.end())
    return false;
  RunRow run = t.s.runs.at(unit.run);
  if (IsTerminal(run.state) || run.candidates[index].state != CandidateState::kWaiting) return true;
  FailCandidate(t, &run, index, outcome.error);
  Reconcile(t, run.id);
  return true;
}

Ack TakeFailure(Txn& t, WorkerState& worker, UnitRow unit, const LeaseResult& outcome) {
  const std::string& reason = outcome.error.reason;
  const Ack ack{outcome.lease, AckKind::kAccepted, ""};
  if (reason == "MODEL_NOT_HERE" && !unit.model.empty()) {
    worker.models_absent.insert(unit.model);
    CloseLease(t, outcome.lease, reason, UnitState::kReady);
    ReconcileUsers(t, unit);
    return ack;
  }
  if (reason == "LEASE_CANCELLED" || reason == "LEASE_LOST" || reason == "WORKER_LEAVING") {
    CloseLease(t, outcome.lease, "cancelled", UnitState::kReady);
    return ack;
  }
  NoteAttempt(&unit, outcome, reason, t.now);
  unit.error = outcome.error;
  // The machine's trouble, not the unit's: say whose.
  if (reason == "DISK_FULL")
    unit.error.message = "workers/" + worker.id + ": " + unit.error.message;
  size_t named = 0;
  const bool blames = !outcome.retryable && unit.checks == 0 && unit.kind == UnitKind::kReplay &&
                      CandidateOf(outcome.error_operand, &named);
  if (!blames) {
    ++unit.failures;
    unit.failed_on.push_back(worker.id);
  }
  t.Put(unit);
  const bool last = !blames && (!outcome.retryable || unit.failures >= t.s.options.failures_max);
  if (!last) CloseLease(t, outcome.lease, reason, UnitState::kReady);
  ForgetBlobs(t, outcome.damaged);
  if (blames && !BlameCandidate(t, t.s.units.at(unit.id), outcome)) {
    PoisonUnit(t, t.s.units.at(unit.id), outcome.error);
  }
  if (last) {
    CloseLease(t, outcome.lease, reason, UnitState::kPoisoned);
    PoisonUnit(t, t.s.units.at(unit.id), unit.error);
  }
  return ack;
}

}  // namespace

void PoisonUnit(Txn& t, UnitRow unit, const Fault& error) {
  unit.state = UnitState::kPoisoned;
  unit.error = error;
  t.Put(unit);
  if (unit.checks != 0) return EndRecheck(t, std::move(unit), error);
  ++t.s.counters.units_poisoned;
  switch (unit.kind) {
    case UnitKind::kPrepare:
    case UnitKind::kCapture:
      FailOperands(t, unit, error);
      return;
    case UnitKind::kRepeat: {
      if (const std::string waiting = WaitingRun(t.s, unit); !waiting.empty()) {
        RunRow run = t.s.runs.at(waiting);
        t.Event(&run, EventKind::kNote, "REPEAT_FAILED",
                "the sentinel contexts of captures/" + unit.capture +
                    " could not be captured again (" + error.message +
                    "); the report says that the noise floor was not measured");
        t.Put(run);
      }
      ReconcileUsers(t, unit);
      return;
    }
    case UnitKind::kReplay:
    case UnitKind::kNoise: {
      RunRow run = t.s.runs.at(unit.run);
      FailRun(t, &run, error);
      return;
    }
  }
}

void DoDocumentFailed(Txn& t, const DocumentFailed& command) {
  const auto lease = t.s.leases.find(command.lease);
  if (lease == t.s.leases.end()) return;
  UnitRow unit = t.s.units.at(lease->second.unit);
  ++unit.failures;
  unit.error = command.error;
  t.Put(unit);
  const bool last = unit.failures >= t.s.options.failures_max;
  CloseLease(t, command.lease, command.error.reason,
             last ? UnitState::kPoisoned : UnitState::kReady);
  if (last) PoisonUnit(t, t.s.units.at(unit.id), command.error);
}

Ack TakeResult(Txn& t, WorkerState& worker, const LeaseResult& outcome) {
  const auto lease = t.s.leases.find(outcome.lease);
  if (lease == t.s.leases.end() || lease->second.worker != worker.id ||
      lease->second.incarnation != worker.incarnation) {
    return LateResult(t, worker, outcome);
  }
  UnitRow unit = t.s.units.at(lease->second.unit);
  if (!outcome.error.empty()) return TakeFailure(t, worker, unit, outcome);

  absl::Status status = outcome.vetting.empty()
                            ? absl::OkStatus()
                            : InvalidError(outcome.vetting.reason, outcome.vetting.message);
  const auto json = ParseJson(outcome.result_json, "result of unit " + std::to_string(unit.id));
  std::string canonical;
  if (status.ok()) status = json.status();
  if (status.ok()) {
    const auto text = CanonicalJson(*json);
    status = text.status();
    canonical = text.value_or("");
  }
  if (status.ok() && unit.checks != 0) {
    status = CheckMadeAlike(t.s, unit, *json);
  } else if (status.ok()) {
    switch (unit.kind) {
      case UnitKind::kPrepare:
        status = ApplyPrepare(t, unit, *json);
        break;
      case UnitKind::kCapture:
      case UnitKind::kRepeat:
        status = ApplyFiles(t, unit, *json);
        break;
      case UnitKind::kReplay:
      case UnitKind::kNoise:
        status = CheckReplay(*json);
        if (status.ok()) status = SettleBackend(t, unit, *json);
        break;
    }
  }
  if (!status.ok()) {
    ++t.s.counters.results_invalid;
    LeaseResult failure = outcome;
    failure.error = {"INVALID_ARGUMENT", ReasonOf(status), MessageOf(status)};
    failure.retryable = true;
    TakeFailure(t, worker, unit, failure);
    return {outcome.lease, AckKind::kInvalid, MessageOf(status)};
  }
  NoteAttempt(&unit, outcome, "done", t.now);
  unit.result_json = canonical;
  unit.result_sha256 = Sha256Hex(canonical);
  t.Put(unit);
  CloseLease(t, outcome.lease, "done", UnitState::kDone);
  if (!unit.model.empty()) worker.models_present.insert(unit.model);
  ++t.s.counters.results_accepted;
  if (unit.checks != 0) {
    CompareRecheck(t, t.s.units.at(unit.id));
    return {outcome.lease, AckKind::kAccepted, ""};
  }
  MaybeRecheck(t, t.s.units.at(unit.id));
  if (unit.run.empty()) {
    ReconcileUsers(t, unit);
  } else if (t.s.unit_counts[unit.run].open == 0) {
    Reconcile(t, unit.run);  // nothing of a run changes before its last open unit
  }
  return {outcome.lease, AckKind::kAccepted, ""};
}

}  // namespace assay::core
