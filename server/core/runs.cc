// Runs: creation, cancelling, failing, ending.

#include <algorithm>
#include <set>

#include "server/core/steps.h"
#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/logit_scale.h"
#include "storage/report/numeric_policy.h"

namespace assay {
namespace {

constexpr size_t kLabelBytesMax = 128;
constexpr size_t kRequestIdBytesMax = 128;
constexpr int64_t kVocabChunkMin = 16;  // that of worker/replay

bool IsToken(const std::string& text, size_t max_bytes) {
  return !text.empty() && text.size() <= max_bytes &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c < 0x80 && std::isalnum(c) != 0) || c == '.' || c == '_' || c == '-';
         });
}

// What identifies an operand's content before anything is computed.
Json SourceJson(const OperandRow& source) {
  Json json = Json::object();
  if (source.given_capture.empty()) {
    json["model"] = source.model;
  } else {
    json["capture"] = source.given_capture;
    json["head"] = source.given_head;
    json["head_origin"] = source.head_origin_json;
  }
  if (!source.bias.empty()) json["bias"] = source.bias;
  return json;
}

// Whether the operand has, or will have, a head of its own.
bool HasOwnHead(const OperandRow& source) {
  return !source.model.empty() || !source.given_head.empty();
}

}  // namespace

std::string WorkFingerprint(const RunRow& run, const CandidateRow& candidate) {
  Json json = Json::object();
  json["suite"] = run.suite;
  json["filter"] = run.filter;
  json["reference"] = SourceJson(run.reference);
  json["candidate"] = SourceJson(candidate.source);
  json["heads"] = run.heads;
  json["policy"] = run.numeric_policy;
  json["valid_vocab"] = run.valid_vocab;
  json["softcap"] = run.softcap;
  json["allow_infinite"] = run.allow_infinite;
  json["repeat"] = run.repeat_sentinels;
  if (!run.backend.empty()) json["backend"] = run.backend;
  // Only where they say something: work of before they existed keeps its fingerprint.
  if (run.logit_scale != 0) json["logit_scale"] = run.logit_scale;
  if (run.score_from != 0) json["score_from"] = run.score_from;
  if (run.vocab_chunk != 0) json["vocab_chunk"] = run.vocab_chunk;
  if (run.limit != 0) json["limit"] = run.limit;
  return Sha256Hex(CanonicalJson(json).value_or(""));
}

std::vector<std::string> HeadModes(const RunRow& run, const CandidateRow& candidate) {
  if (!HasOwnHead(candidate.source)) return {"shared"};
  if (!run.heads.empty()) return run.heads;
  if (candidate.source.head == run.reference.head && candidate.source.bias == run.reference.bias)
    return {"own"};
  return {"own", "shared"};
}

int64_t ScoredPositions(const RunRow& run) { return run.context_length - 1 - run.score_from; }

std::string_view RunStateName(RunState state) {
  switch (state) {
    case RunState::kPending:
      return "PENDING";
    case RunState::kQueued:
      return "QUEUED";
    case RunState::kRunning:
      return "RUNNING";
    case RunState::kSealing:
      return "SEALING";
    case RunState::kSucceeded:
      return "SUCCEEDED";
    case RunState::kFailed:
      return "FAILED";
    case RunState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

namespace core {
namespace {

absl::Status CheckOperand(const State& s, const OperandRow& source, const RunRow& run,
                          const std::string& who) {
  if (source.given_capture.empty() == source.model.empty()) {
    return InvalidError("RUN_INVALID", who + ": give exactly one of model and capture");
  }
  if (!source.model.empty()) {
    if (s.models.count(source.model) == 0) {
      return NotFoundError("MODEL_UNKNOWN",
                           who + ": models/" + source.model + " was never created");
    }
    return absl::OkStatus();
  }
  const auto capture = s.captures.find(source.given_capture);
  if (capture == s.captures.end()) {
    return NotFoundError("CAPTURE_UNKNOWN",
                         who + ": captures/" + source.given_capture + " does not exist");
  }
  if (capture->second.suite != run.suite) {
    return InvalidError("RUN_INVALID",
                        who + ": captures/" + source.given_capture + " is of another suite");
  }
  if (capture->second.cut_point != kDefaultCutPoint) {
    return InvalidError("CUT_POINT_DIFFERS", who + ": captures/" + source.given_capture +
                                                 " was taken at \"" + capture->second.cut_point +
                                                 "\"; a head is applied to rows taken at \"" +
                                                 std::string(kDefaultCutPoint) +
                                                 "\" only, capture it there");
  }
  const auto files = s.files.find(source.given_capture);
  for (const int64_t index : run.contexts) {
    if (files == s.files.end() || files->second[0].count(index) == 0) {
      return PreconditionError("CAPTURE_INCOMPLETE", who + ": captures/" + source.given_capture +
                                                         " lacks context " + std::to_string(index));
    }
  }
  if (source.given_head.empty()) {
    const bool known = !capture->second.model.empty() && s.models.count(capture->second.model) != 0;
    if (known) return absl::OkStatus();
    if (&source == &run.reference) {
      return InvalidError("HEAD_UNKNOWN",
                          who + ": a capture of an unregistered model needs a head; give --head");
    }
    if (!source.bias.empty()) {
      return InvalidError("HEAD_UNKNOWN", who + ": a bias belongs to a head of its own; give one");
    }
    if (!run.heads.empty() &&
        std::find(run.heads.begin(), run.heads.end(), "shared") == run.heads.end()) {
      return InvalidError("HEAD_UNKNOWN", who +
                                              ": the capture has no head of its own, and the run "
                                              "asks for own heads only; give --candidate-head");
    }
  } else if (s.heads.count(source.given_head) == 0) {
    return NotFoundError("HEAD_UNKNOWN",
                         who + ": heads/" + source.given_head + " was never created");
  }
  return absl::OkStatus();
}

// As worker/replay refuses them, but before any work.
absl::Status CheckNumbers(const RunRow& run) {
  if (run.logit_scale != 0 && !IsLogitScale(run.logit_scale)) {
    return InvalidError("RUN_INVALID",
                        "logit_scale (--logit-scale) must be 1e-6 to 1e6, or 0 for 1");
  }
  if (run.backend == "cuda-bf16" && run.numeric_policy != "exact") {
    return InvalidError("RUN_INVALID", "backend cuda-bf16 computes policy exact only; for " +
                                           run.numeric_policy +
                                           " use backend cpu-bf16, cpu-f32 or auto");
  }
  if (run.score_from < 0 || ScoredPositions(run) < 1) {
    return InvalidError("FILTER_EMPTY", "scoring from position " + std::to_string(run.score_from) +
                                            " leaves nothing of contexts with " +
                                            std::to_string(run.context_length - 1) +
                                            " scored positions; start earlier");
  }
  if (run.limit < 0) return InvalidError("RUN_INVALID", "limit must not be negative, 0 for all");
  const bool chunked = run.vocab_chunk != 0;
  if (chunked && (run.vocab_chunk < kVocabChunkMin || run.softcap != 0 ||
                  run.numeric_policy != "torch-bf16")) {
    return InvalidError("RUN_INVALID",
                        "vocab_chunk needs policy torch-bf16 without softcap and at least " +
                            std::to_string(kVocabChunkMin) + " columns");
  }
  return absl::OkStatus();
}

absl::Status CheckBackendIsThere(const State& s, const RunRow& run) {
  const std::string other = BackendsWithout(s, run.backend);
  if (other.empty()) return absl::OkStatus();
  return PreconditionError("BACKEND_UNAVAILABLE",
                           "no connected worker has the replay backend " + run.backend + ", only " +
                               other +
                               "; use one of them or auto, or connect such a "
                               "worker first");
}

absl::Status CheckRun(const State& s, const RunRow& run) {
  if (!IsToken(run.request_id, kRequestIdBytesMax)) {
    return InvalidError("RUN_INVALID",
                        "request_id must be 1 to 128 characters of A-Z a-z 0-9 . _ -");
  }
  if (s.suites.count(run.suite) == 0) {
    return NotFoundError("SUITE_UNKNOWN", "suites/" + run.suite + " was never created");
  }
  if (run.contexts.empty()) return InvalidError("RUN_INVALID", "the filter selects no context");
  if (run.candidates.empty() || run.candidates.size() > s.options.candidates_max) {
    return InvalidError(
        "RUN_INVALID",
        "a run has 1 to " + std::to_string(s.options.candidates_max) + " candidates");
  }
  ASSAY_RETURN_IF_ERROR(CheckNumericPolicy(run.numeric_policy));
  if (!run.backend.empty()) ASSAY_RETURN_IF_ERROR(CheckReplayBackend(run.backend));
  if (run.unit_contexts < 0 || run.unit_contexts > s.options.unit_contexts_max ||
      run.row_tile < 0 || run.row_tile > 4096 || run.valid_vocab < 0) {
    return InvalidError("RUN_INVALID",
                        "unit_contexts and row_tile must be 0 to 4096, valid_vocab not negative");
  }
  ASSAY_RETURN_IF_ERROR(CheckNumbers(run));
  ASSAY_RETURN_IF_ERROR(CheckBackendIsThere(s, run));
  std::set<std::string> modes;
  for (const std::string& head : run.heads) {
    if ((head != "own" && head != "shared") || !modes.insert(head).second) {
      return InvalidError("RUN_INVALID", "heads are \"own\" and \"shared\", each once");
    }
  }
  std::set<std::string> labels;
  for (const CandidateRow& candidate : run.candidates) {
    if (!IsToken(candidate.label, kLabelBytesMax) || candidate.label == "." ||
        candidate.label == "..") {
      return InvalidError("LABEL_INVALID",
                          "a label is 1 to 128 characters of A-Z a-z 0-9 . _ -, not . or ..");
    }
    if (!labels.insert(candidate.label).second) {
      return InvalidError("LABEL_DUPLICATE", "two candidates have the label " + candidate.label);
    }
    ASSAY_RETURN_IF_ERROR(CheckOperand(s, candidate.source, run, "candidate " + candidate.label));
  }
  return CheckOperand(s, run.reference, run, "reference");
}

// What to say beside a reused report that connected workers would not make again: they have other
// kernels than the run that it comes from.
std::string OtherKernelsNow(const State& s, const std::string& report) {
  const auto row = s.reports.find(report);
  const auto run = row == s.reports.end() ? s.runs.end() : s.runs.find(row->second.run);
  if (run == s.runs.end() || run->second.replay_identity_json.empty()) return "";
  bool any = false;
  for (const auto& [id, w] : s.workers) {
    if (!w.live || w.replay_identity.empty()) continue;
    if (w.replay_identity == run->second.replay_identity_json) return "";
    any = true;
  }
  return any ? ", by kernels that no connected worker has now; ask for a fresh run to have it "
               "computed by theirs"
             : "";
}

void ReuseReports(Txn& t, RunRow* run) {
  for (CandidateRow& candidate : run->candidates) {
    candidate.fingerprint = WorkFingerprint(*run, candidate);
    const auto found = t.s.report_of_work.find(candidate.fingerprint);
    if (run->fresh || found == t.s.report_of_work.end()) continue;
    candidate.state = CandidateState::kSealed;
    candidate.report = found->second;
    candidate.reused = true;
    ++t.s.counters.reports_reused;
    t.Event(run, EventKind::kCandidate, "REPORT_REUSED",
            "candidate " + candidate.label + ": identical work was sealed before as reports/" +
                found->second + OtherKernelsNow(t.s, found->second));
  }
}

absl::Status CheckQuota(const State& s, const std::string& principal) {
  if (s.active_runs.size() >= s.options.active_runs_max) {
    return ExhaustedError("QUEUE_FULL",
                          std::to_string(s.active_runs.size()) +
                              " runs are waiting or running; try again when some have ended");
  }
  const size_t most = s.options.runs_per_principal_max;
  const auto own = s.active_runs_of.find(principal);
  if (most == 0 || own == s.active_runs_of.end() || own->second < most) return absl::OkStatus();
  return ExhaustedError("RUN_QUOTA",
                        principal + " has " + std::to_string(own->second) +
                            " runs waiting or running and may have " + std::to_string(most) +
                            "; try again when some have ended, cancel some, or ask the "
                            "administrator for more (assayd --max-runs-per-principal)");
}

}  // namespace

void SetRunState(Txn& t, RunRow* run, RunState state) {
  run->state = state;
  if (IsTerminal(state)) run->end_ms = t.now.unix_ms;
  t.Event(run, EventKind::kState, std::string(RunStateName(state)),
          "run " + run->id + " is " + std::string(RunStateName(state)) +
              (run->error.empty() ? std::string() : ": " + run->error.message));
}

absl::StatusOr<RunAnswer> DoCreateRun(Txn& t, const std::string& principal,
                                      const CreateRun& command) {
  RunRow run = command.run;
  run.principal = principal;
  if (run.numeric_policy.empty()) run.numeric_policy = "exact";
  if (run.filter.empty()) run.filter = "all";
  const std::string key = RequestKey(run);
  if (const auto seen = t.s.requests.find(key); seen != t.s.requests.end()) {
    if (seen->second.spec_sha256 != run.spec_sha256) {
      const auto earlier = t.s.runs.find(seen->second.resource);
      const bool other_policy =
          earlier != t.s.runs.end() && earlier->second.numeric_policy != run.numeric_policy;
      return Error(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                   "request id " + run.request_id + " was used for another run (runs/" +
                       seen->second.resource +
                       (other_policy ? ", of numeric policy " + earlier->second.numeric_policy +
                                           " instead of " + run.numeric_policy
                                     : std::string()) +
                       "); choose a new one");
    }
    return RunAnswer{seen->second.resource, true};
  }
  ASSAY_RETURN_IF_ERROR(CheckRun(t.s, run));
  ASSAY_RETURN_IF_ERROR(CheckQuota(t.s, run.principal));
  if (run.unit_contexts == 0) run.unit_contexts = t.s.options.unit_contexts;
  if (run.row_tile == 0) run.row_tile = 64;
  // The head of a capture's registered model is the capture's own.
  const auto adopt = [&](OperandRow* source) {
    if (!source->given_capture.empty() && source->given_head.empty())
      source->model = t.s.captures.at(source->given_capture).model;
  };
  adopt(&run.reference);
  for (CandidateRow& candidate : run.candidates) adopt(&candidate.source);
  run.id = key.substr(0, 24);
  run.serial = t.NextSerial();
  run.create_ms = t.now.unix_ms;
  run.error = {};
  ++t.s.counters.runs_created;
  SetRunState(t, &run, RunState::kPending);
  ReuseReports(t, &run);
  SetRunState(t, &run, RunState::kQueued);
  t.Put(run);
  t.Put(RequestIdRow{key, run.spec_sha256, run.id, t.now.unix_ms});
  Reconcile(t, run.id);
  return RunAnswer{run.id, false};
}

absl::StatusOr<RunAnswer> DoCancelRun(Txn& t, const CancelRun& command) {
  const auto found = t.s.runs.find(command.run);
  if (found == t.s.runs.end()) {
    return NotFoundError("RUN_UNKNOWN", "runs/" + command.run + " does not exist");
  }
  RunRow run = found->second;
  if (IsTerminal(run.state) || run.state == RunState::kSealing) return RunAnswer{run.id, true};
  for (CandidateRow& candidate : run.candidates) {
    if (candidate.state == CandidateState::kWaiting) candidate.state = CandidateState::kCancelled;
  }
  SetRunState(t, &run, RunState::kCancelled);
  t.Put(run);
  DropUnneeded(t, run);
  return RunAnswer{run.id, true};
}

void FailRun(Txn& t, RunRow* run, const Fault& error) {
  if (IsTerminal(run->state)) return;
  run->error = error;
  for (CandidateRow& candidate : run->candidates) {
    if (candidate.state != CandidateState::kSealed && candidate.state != CandidateState::kFailed) {
      candidate.state = CandidateState::kFailed;
      candidate.error = error;
    }
  }
  SetRunState(t, run, RunState::kFailed);
  t.Put(*run);
  DropUnneeded(t, *run);
}

void FailCandidate(Txn& t, RunRow* run, size_t index, const Fault& error) {
  CandidateRow& candidate = run->candidates[index];
  if (candidate.state == CandidateState::kSealed || candidate.state == CandidateState::kFailed)
    return;
  candidate.state = CandidateState::kFailed;
  candidate.error = error;
  t.Event(run, EventKind::kCandidate, error.reason,
          "candidate " + candidate.label + " failed: " + error.message);
  t.Put(*run);
  const bool others =
      std::any_of(run->candidates.begin(), run->candidates.end(), [](const CandidateRow& c) {
        return c.state != CandidateState::kFailed && c.state != CandidateState::kCancelled;
      });
  if (!others) {
    FailRun(t, run, error);
  } else if (run->state == RunState::kSealing) {
    FinishSealing(t, run);
  } else {
    DropUnneeded(t, *run);
  }
}

void FinishSealing(Txn& t, RunRow* run) {
  bool sealed = false;
  for (const CandidateRow& candidate : run->candidates) {
    if (candidate.state == CandidateState::kComputed || candidate.state == CandidateState::kWaiting)
      return;
    sealed = sealed || candidate.state == CandidateState::kSealed;
  }
  if (!sealed) return;  // FailCandidate has failed the run
  SetRunState(t, run, RunState::kSucceeded);
  t.Put(*run);
}

absl::Status DoSealDone(Txn& t, const SealDone& command) {
  const auto found = t.s.runs.find(command.run);
  if (found == t.s.runs.end() || command.candidate >= found->second.candidates.size()) {
    return InternalError("SEAL_UNKNOWN", "sealed candidate of an unknown run");
  }
  RunRow run = found->second;
  CandidateRow& candidate = run.candidates[command.candidate];
  // The intent is open exactly while the run is SEALING and the candidate COMPUTED.
  if (run.state != RunState::kSealing || candidate.state != CandidateState::kComputed) {
    return PreconditionError(
        "SEAL_CLOSED", "candidate " + candidate.label + " of runs/" + run.id + " is not open");
  }
  candidate.state = CandidateState::kSealed;
  candidate.report = command.report.id;
  if (t.s.reports.count(command.report.id) == 0) {
    if (command.log_size != t.s.meta.log_size + 1) {
      return InternalError("SEAL_ORDER",
                           "the log has " + std::to_string(t.s.meta.log_size) + " leaves");
    }
    t.Put(command.report);
    t.Put(command.receipt);
    for (const LogNodeRow& node : command.nodes) t.Put(node);
    t.s.meta.log_size = command.log_size;
    t.s.meta.checkpoint = command.checkpoint;
    t.ChangeMeta();
    ++t.s.counters.reports_sealed;
  }
  t.Event(&run, EventKind::kCandidate, "SEALED",
          "candidate " + candidate.label + " is sealed: reports/" + candidate.report);
  t.Put(run);
  FinishSealing(t, &run);
  return absl::OkStatus();
}

absl::Status DoSealFailed(Txn& t, const SealFailed& command) {
  const auto found = t.s.runs.find(command.run);
  if (found == t.s.runs.end() || command.candidate >= found->second.candidates.size()) {
    return InternalError("SEAL_UNKNOWN", "candidate of an unknown run");
  }
  RunRow run = found->second;
  if (run.state == RunState::kSealing) FailCandidate(t, &run, command.candidate, command.error);
  return absl::OkStatus();
}

void DropUnneeded(Txn& t, const RunRow& ended) {
  std::set<uint64_t> ids;
  if (const auto it = t.s.units_of_run.find(ended.id); it != t.s.units_of_run.end())
    ids = it->second;
  std::vector<const OperandRow*> operands = {&ended.reference};
  for (const CandidateRow& candidate : ended.candidates) operands.push_back(&candidate.source);
  for (const OperandRow* op : operands) {
    if (const auto it = t.s.units_of_capture.find(op->capture); it != t.s.units_of_capture.end()) {
      ids.insert(it->second.begin(), it->second.end());
    }
    if (const auto it = t.s.units_of_model.find(op->model); it != t.s.units_of_model.end()) {
      ids.insert(it->second.begin(), it->second.end());
    }
  }
  for (const uint64_t id : ids) {
    UnitRow unit = t.s.units.at(id);
    const bool open = unit.state == UnitState::kBlocked || unit.state == UnitState::kReady ||
                      unit.state == UnitState::kLeased;
    if (!open || !WaitingRun(t.s, unit).empty()) continue;
    if (unit.state == UnitState::kLeased) {
      CloseLease(t, unit.lease, "cancelled", UnitState::kDropped);
      t.effects.wake_workers = true;
    } else {
      unit.state = UnitState::kDropped;
      t.Put(unit);
    }
  }
}

}  // namespace core
}  // namespace assay
