// What a run needs next: PREPARE and CAPTURE units, repeats of sentinel contexts, REPLAY units,
// SEALING.

#include <algorithm>
#include <optional>

#include "server/core/steps.h"
#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "storage/format/capture.h"

namespace assay {

std::string CaptureId(std::string_view model, std::string_view suite, std::string_view cut_point,
                      std::string_view identity_json) {
  Json json = Json::object();
  json["model"] = model;
  json["suite"] = suite;
  json["cut_point"] = cut_point;
  json["identity_sha256"] = Sha256Hex(identity_json);
  return Sha256Hex(CanonicalJson(json).value_or(""));
}

namespace core {
namespace {

bool IsOpen(UnitState s) {
  return s == UnitState::kBlocked || s == UnitState::kReady || s == UnitState::kLeased;
}

void AddUnit(Txn& t, UnitRow unit) {
  unit.id = t.NextSerial();
  t.effects.wake_workers |= unit.state == UnitState::kReady;
  t.Put(unit);
}

bool HasFiles(const State& s, const std::string& capture, int generation,
              const std::vector<int64_t>& contexts) {
  const auto files = s.files.find(capture);
  if (files == s.files.end()) return contexts.empty();
  const FileMap& map = files->second[static_cast<size_t>(generation)];
  return std::all_of(contexts.begin(), contexts.end(),
                     [&](int64_t i) { return map.count(i) != 0; });
}

void EnsurePrepare(Txn& t, const std::string& model) {
  if (const auto it = t.s.units_of_model.find(model); it != t.s.units_of_model.end()) {
    for (const uint64_t id : it->second) {
      if (IsOpen(t.s.units.at(id).state)) return;
    }
  }
  UnitRow unit;
  unit.kind = UnitKind::kPrepare;
  unit.model = model;
  unit.state = UnitState::kReady;
  AddUnit(t, std::move(unit));
}

// Cuts `contexts` into units of at most `contexts_max` contexts and `tokens_max` tokens.
std::vector<std::vector<int64_t>> Cut(const std::vector<int64_t>& contexts, const RunRow& run,
                                      int64_t contexts_max, int64_t tokens_max) {
  const int64_t by_tokens =
      std::max<int64_t>(1, tokens_max / std::max<int64_t>(1, run.context_length));
  const auto size = static_cast<size_t>(std::clamp<int64_t>(contexts_max, 1, by_tokens));
  std::vector<std::vector<int64_t>> parts;
  for (size_t at = 0; at < contexts.size(); at += size) {
    const size_t end = std::min(contexts.size(), at + size);
    parts.emplace_back(contexts.begin() + static_cast<std::ptrdiff_t>(at),
                       contexts.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return parts;
}

// Units for those of `contexts` that neither have a file nor an open unit of that kind.
void EnsureCaptureUnits(Txn& t, const RunRow& run, const CaptureRow& capture, UnitKind kind,
                        const std::vector<int64_t>& contexts) {
  const size_t generation = kind == UnitKind::kRepeat ? 1 : 0;
  std::set<int64_t> covered;
  for (const auto& [index, file] : t.s.files[capture.id][generation]) covered.insert(index);
  if (const auto it = t.s.units_of_capture.find(capture.id); it != t.s.units_of_capture.end()) {
    for (const uint64_t id : it->second) {
      const UnitRow& unit = t.s.units.at(id);
      if (unit.kind == kind && IsOpen(unit.state))
        covered.insert(unit.contexts.begin(), unit.contexts.end());
    }
  }
  std::vector<int64_t> missing;
  for (const int64_t index : contexts) {
    if (covered.count(index) == 0) missing.push_back(index);
  }
  // A repeat starts the rank processes anew, which costs more than its few contexts: as few units
  // as the token limit allows.
  const int64_t contexts_max =
      kind == UnitKind::kRepeat ? t.s.options.unit_contexts_max : run.unit_contexts;
  for (auto& part : Cut(missing, run, contexts_max, t.s.options.unit_tokens_max)) {
    UnitRow unit;
    unit.kind = kind;
    unit.model = capture.model;
    unit.capture = capture.id;
    unit.contexts = std::move(part);
    unit.state = UnitState::kReady;
    AddUnit(t, std::move(unit));
  }
}

// Which kernels capture `model` for this run: those of a live worker that may have the model.
// Prefers the run's own, then those of a complete earlier capture, then those of a worker known to
// have the model.
std::optional<std::string> ChooseIdentity(const State& s, const RunRow& run,
                                          const std::string& model) {
  std::set<std::string> usable;
  std::optional<std::string> known;
  for (const auto& [id, w] : s.workers) {
    if (!w.live || w.draining || w.capture_identity.empty() || w.models_absent.count(model) != 0)
      continue;
    usable.insert(w.capture_identity);
    if (!known && w.models_present.count(model) != 0) known = w.capture_identity;
  }
  if (usable.empty()) return std::nullopt;
  if (usable.count(run.capture_identity_json) != 0) return run.capture_identity_json;
  for (const std::string& identity : usable) {
    if (HasFiles(s, CaptureId(model, run.suite, kDefaultCutPoint, identity), 0, run.contexts))
      return identity;
  }
  return known ? known : *usable.begin();
}

// A complete earlier capture of the model by kernels that no worker has now. Only for models that
// no worker can capture.
std::optional<std::string> OldCapture(const State& s, const RunRow& run, const std::string& model) {
  const bool anybody = std::any_of(s.workers.begin(), s.workers.end(), [](const auto& w) {
    return w.second.live && !w.second.replay_identity.empty();
  });
  if (!anybody) return std::nullopt;
  for (const auto& [id, capture] : s.captures) {
    if (capture.model == model && capture.suite == run.suite &&
        capture.cut_point == kDefaultCutPoint && capture.origin == "native" &&
        HasFiles(s, id, 0, run.contexts)) {
      return id;
    }
  }
  return std::nullopt;
}

// How people know an operand: by its label.
std::string OperandText(const RunRow& run, const OperandRow& op) {
  for (const CandidateRow& candidate : run.candidates) {
    if (&candidate.source == &op) return "candidate " + candidate.label;
  }
  return "reference" + (run.reference_label.empty() ? "" : " " + run.reference_label);
}

void UseCapture(Txn& t, RunRow* run, OperandRow* op, const std::string& id) {
  op->capture = id;
  if (!HasFiles(t.s, id, 0, run->contexts)) return;
  t.Event(run, EventKind::kNote, "CAPTURE_REUSED",
          OperandText(*run, *op) + ": all " + std::to_string(run->contexts.size()) +
              " contexts were captured before, as captures/" + id + ", and are reused");
}

void ChooseCapture(Txn& t, RunRow* run, OperandRow* op) {
  const auto identity = ChooseIdentity(t.s, *run, op->model);
  if (!identity) {
    if (const auto old = OldCapture(t.s, *run, op->model)) UseCapture(t, run, op, *old);
    return;
  }
  if (run->capture_identity_json.empty()) run->capture_identity_json = *identity;
  CaptureRow capture;
  capture.id = CaptureId(op->model, run->suite, kDefaultCutPoint, *identity);
  if (t.s.captures.count(capture.id) == 0) {
    capture.model = op->model;
    capture.suite = run->suite;
    capture.cut_point = std::string(kDefaultCutPoint);
    capture.identity_json = *identity;
    capture.origin = "native";
    capture.contexts_total = t.s.suites.at(run->suite).contexts;
    capture.create_ms = t.now.unix_ms;
    t.Put(capture);
  }
  UseCapture(t, run, op, capture.id);
}

// True when nobody who could finish the capture is left although others could make another one.
bool CaptureIsDead(const State& s, const RunRow& run, const OperandRow& op) {
  const CaptureRow& capture = s.captures.at(op.capture);
  if (HasFiles(s, op.capture, 0, run.contexts)) return false;
  for (const auto& [id, w] : s.workers) {
    if (w.live && w.capture_identity == capture.identity_json &&
        w.models_absent.count(op.model) == 0)
      return false;
  }
  const auto other = ChooseIdentity(s, run, op.model);
  return other && *other != capture.identity_json;
}

// Replays of a run must all have seen the same captures: once one is given out, none may move.
bool ReplayBegun(const State& s, const RunRow& run) {
  const auto it = s.units_of_run.find(run.id);
  return it != s.units_of_run.end() &&
         std::any_of(it->second.begin(), it->second.end(), [&](uint64_t id) {
           const UnitState state = s.units.at(id).state;
           return state == UnitState::kLeased || state == UnitState::kDone;
         });
}

// Replay units that were READY with the files of a capture that is given up.
void BlockReplays(Txn& t, const RunRow& run) {
  const auto it = t.s.units_of_run.find(run.id);
  if (it == t.s.units_of_run.end()) return;
  for (const uint64_t id : it->second) {
    UnitRow unit = t.s.units.at(id);
    if (unit.kind != UnitKind::kReplay || unit.state != UnitState::kReady) continue;
    unit.state = UnitState::kBlocked;
    t.Put(unit);
  }
}

// Brings one operand as far as it can get now. False: it waits for something.
bool AdvanceOperand(Txn& t, RunRow* run, OperandRow* op) {
  if (!op->given_capture.empty()) {
    op->capture = op->given_capture;
    if (op->head.empty()) op->head = op->given_head;
    if (!op->head.empty()) return true;
    if (op->model.empty()) {  // through the reference's head, once that is known
      op->head = run->reference.head;
      return !op->head.empty();
    }
    op->head = t.s.models.at(op->model).head;
    if (op->head.empty()) EnsurePrepare(t, op->model);
    return !op->head.empty();
  }
  const ModelRow& model = t.s.models.at(op->model);
  if (model.head.empty()) {
    EnsurePrepare(t, op->model);
    return false;
  }
  op->head = model.head;
  if (!op->capture.empty() && CaptureIsDead(t.s, *run, *op) && !ReplayBegun(t.s, *run)) {
    t.Event(run, EventKind::kNote, "CAPTURE_MOVED",
            "no live worker with the kernels of captures/" + op->capture + " has models/" +
                op->model + "; another worker's kernels are used");
    op->capture.clear();
    BlockReplays(t, *run);
  }
  if (op->capture.empty()) ChooseCapture(t, run, op);
  if (op->capture.empty()) return false;
  EnsureCaptureUnits(t, *run, t.s.captures.at(op->capture), UnitKind::kCapture, run->contexts);
  return true;
}

// What a capture that was given, or a vocabulary, has to do with the head.
std::optional<Fault> CheckShapes(const State& s, const RunRow& run, const OperandRow& op) {
  const HeadRow& head = s.heads.at(op.head);
  const auto mismatch = [](const std::string& text) {
    return Fault{"INVALID_ARGUMENT", "SHAPE_MISMATCH", text};
  };
  if (run.valid_vocab > head.vocab) {
    return mismatch("heads/" + op.head + " has " + std::to_string(head.vocab) +
                    " rows, fewer than the " + std::to_string(run.valid_vocab) + " of valid_vocab");
  }
  if (const int64_t stated = s.suites.at(run.suite).vocab_size; stated > head.vocab) {
    return mismatch("heads/" + op.head + " has " + std::to_string(head.vocab) +
                    " rows, the suite's vocabulary is " + std::to_string(stated) +
                    "; suite and head belong to different models");
  }
  const auto files = s.files.find(op.given_capture);
  if (files == s.files.end() || files->second[0].empty()) return std::nullopt;
  const int64_t width = files->second[0].begin()->second.width;
  if (width == head.hidden) return std::nullopt;
  return mismatch("heads/" + op.head + " takes " + std::to_string(head.hidden) +
                  " hidden values, the rows of captures/" + op.given_capture + " have " +
                  std::to_string(width) + "; give the head of that model");
}

// Faults that show as soon as heads are known.
std::optional<Fault> CheckHeads(const State& s, const RunRow& run, const OperandRow& op,
                                bool is_reference) {
  const HeadRow& head = s.heads.at(op.head);
  const int64_t columns = run.valid_vocab > 0 ? std::min(run.valid_vocab, head.vocab) : head.vocab;
  if (run.max_token >= columns) {
    return Fault{"INVALID_ARGUMENT", "TOKEN_OUT_OF_RANGE",
                 "suites/" + run.suite + " has token id " + std::to_string(run.max_token) +
                     " but heads/" + op.head + " has a vocabulary of " + std::to_string(columns) +
                     "; the suite was made for another tokenizer"};
  }
  if (const auto fault = CheckShapes(s, run, op)) return fault;
  if (is_reference) return std::nullopt;
  const auto reference = s.heads.find(run.reference.head);
  if (reference == s.heads.end() || reference->second.vocab == head.vocab) return std::nullopt;
  return Fault{"INVALID_ARGUMENT", "VOCAB_MISMATCH",
               "the candidate's vocabulary has " + std::to_string(head.vocab) +
                   " entries, the reference's " + std::to_string(reference->second.vocab) +
                   "; they cannot be compared"};
}

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

// READY when every live operand has the unit's contexts.
void Unblock(Txn& t, RunRow* run) {
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

bool UnitsEnded(const State& s, const RunRow& run) {
  const auto it = s.units_of_run.find(run.id);
  return it == s.units_of_run.end() ||
         std::none_of(it->second.begin(), it->second.end(),
                      [&](uint64_t id) { return IsOpen(s.units.at(id).state); });
}

void BeginSealing(Txn& t, RunRow* run) {
  bool any = false;
  for (CandidateRow& candidate : run->candidates) {
    if (candidate.state != CandidateState::kWaiting) continue;
    candidate.state = CandidateState::kComputed;
    any = true;
  }
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

bool NeedsModel(const RunRow& run, const std::string& model) {
  RunRow copy = run;
  const auto live = LiveOperands(&copy);
  return std::any_of(live.begin(), live.end(),
                     [&](const OperandRow* op) { return op->model == model; });
}

bool NeedsCapture(const RunRow& run, const std::string& capture) {
  RunRow copy = run;
  const auto live = LiveOperands(&copy);
  return std::any_of(live.begin(), live.end(),
                     [&](const OperandRow* op) { return op->capture == capture; });
}

std::string WaitingRun(const State& s, const UnitRow& unit) {
  if (!unit.run.empty()) return s.active_runs.count(unit.run) != 0 ? unit.run : "";
  for (const std::string& id : s.active_runs) {
    const RunRow& run = s.runs.at(id);
    if (run.state == RunState::kSealing) continue;
    if (unit.kind == UnitKind::kPrepare) {
      RunRow copy = run;
      for (const OperandRow* op : LiveOperands(&copy)) {
        const bool of_capture =
            !op->capture.empty() && s.captures.at(op->capture).model == unit.model;
        if (op->model == unit.model || of_capture) return id;
      }
    } else if (NeedsCapture(run, unit.capture)) {
      return id;
    }
  }
  return "";
}

void Reconcile(Txn& t, const std::string& id) {
  RunRow run = t.s.runs.at(id);
  if (run.state != RunState::kQueued && run.state != RunState::kRunning) return;
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
      repeats = repeats && RepeatsEnded(t.s, run, *op);
    if (repeats && !run.noise_planned) PlanNoise(t, &run);
    if (run.noise_planned && UnitsEnded(t.s, run)) return BeginSealing(t, &run);
  }
  if (EncodeRow(run) != before) t.Put(run);
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
  for (const std::string& id : std::set<std::string>(t.s.active_runs)) {
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

}  // namespace core
}  // namespace assay
