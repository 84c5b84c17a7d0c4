// Operands: which capture an operand uses, what of it is still to be made, and whether heads fit.

#include <algorithm>
#include <optional>

#include "server/core/plan.h"
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

namespace {

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

}  // namespace

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
      if (unit.kind == kind && unit.checks == 0 && IsOpen(unit.state))
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

namespace {

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

}  // namespace

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

namespace {

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

}  // namespace

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

}  // namespace core
}  // namespace assay
