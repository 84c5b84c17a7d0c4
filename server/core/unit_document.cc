#include "server/core/unit_document.h"

#include <map>

#include "server/core/steps.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::StatusOr<Json> ModelJson(const State& state, const std::string& id) {
  ASSAY_ASSIGN_OR_RETURN(Json manifest,
                         ParseJson(state.models.at(id).manifest_json, "models/" + id));
  return Json{{"identity", id}, {"manifest", std::move(manifest)}};
}

absl::StatusOr<const SuiteContext*> FindContext(const Suite& suite, int64_t index) {
  // Parent suites number their contexts from 0; shard views do not.
  const auto at = static_cast<size_t>(index);
  if (index >= 0 && at < suite.contexts.size() && suite.contexts[at].index == index)
    return &suite.contexts[at];
  for (const SuiteContext& context : suite.contexts) {
    if (context.index == index) return &context;
  }
  return DataLossError("CONTEXT_MISSING", "the suite has no context " + std::to_string(index));
}

absl::StatusOr<Json> CaptureContexts(const Suite& suite, const UnitRow& unit) {
  Json contexts = Json::array();
  for (const int64_t index : unit.contexts) {
    ASSAY_ASSIGN_OR_RETURN(const SuiteContext* context, FindContext(suite, index));
    contexts.push_back({{"index", index}, {"tokens", context->tokens}});
  }
  return contexts;
}

absl::StatusOr<Json> ReplayContexts(const Suite& suite, const UnitRow& unit, size_t first) {
  Json contexts = Json::array();
  for (const int64_t index : unit.contexts) {
    ASSAY_ASSIGN_OR_RETURN(const SuiteContext* context, FindContext(suite, index));
    // Row r predicts token r + 1.
    Json observed = Json::array();
    for (size_t i = first + 1; i < context->tokens.size(); ++i)
      observed.push_back(context->tokens[i]);
    contexts.push_back({{"index", index}, {"observed", std::move(observed)}});
  }
  return contexts;
}

Json HiddenFiles(const State& state, const std::string& capture, size_t generation,
                 const UnitRow& unit) {
  Json files = Json::array();
  const FileMap& map = state.files.at(capture)[generation];
  for (const int64_t index : unit.contexts) {
    const CaptureFileRow& file = map.at(index);
    files.push_back({{"sha256", file.sha256}, {"bytes", file.bytes}});
  }
  return files;
}

// Heads of a replay unit, each distinct content (with its bias) once; ids say whose head it is, so
// that a refused head has an owner.
class HeadList {
 public:
  HeadList(const State& state, const RunRow& run, Json* out)
      : state_(state), scale_(run.logit_scale), out_(out) {}
  std::string Add(const OperandRow& op, const std::string& id) {
    const auto [it, added] = ids_.emplace(std::pair(op.head, op.bias), id);
    if (added) {
      const HeadRow& row = state_.heads.at(op.head);
      Json bias = nullptr;
      if (!op.bias.empty()) {
        bias = {{"sha256", op.bias_file}, {"bytes", op.bias_bytes}, {"tensor", op.bias_tensor}};
      }
      const bool scaled = scale_ != 0 && scale_ != 1;
      out_->push_back({{"id", id},
                       {"sha256", row.file_sha256},
                       {"bytes", row.file_bytes},
                       {"tensor", row.tensor},
                       {"logit_scale", scaled ? Json(scale_) : Json(nullptr)},
                       {"bias", std::move(bias)}});
    }
    return it->second;
  }

 private:
  const State& state_;
  const double scale_;
  Json* out_;
  std::map<std::pair<std::string, std::string>, std::string> ids_;
};

Json Operand(const State& state, const std::string& id, const char* role,
             const std::string& capture, size_t generation, const UnitRow& unit) {
  return {{"id", id}, {"role", role}, {"hidden", HiddenFiles(state, capture, generation, unit)}};
}

Json Comparison(const std::string& id, const std::string& ref_head, const std::string& operand,
                const std::string& head) {
  return {{"id", id},
          {"ref", {{"operand", "ref"}, {"head", ref_head}}},
          {"cand", {{"operand", operand}, {"head", head}}}};
}

absl::StatusOr<Json> ReplayJson(const State& state, const UnitRow& unit, const Suite& suite) {
  const RunRow& run = state.runs.at(unit.run);
  Json heads = Json::array(), operands = Json::array(), comparisons = Json::array();
  HeadList list(state, run, &heads);
  if (unit.kind == UnitKind::kNoise) {
    const OperandRow* op = &run.reference;
    for (const CandidateRow& candidate : run.candidates) {
      if (run.reference.capture != unit.capture && candidate.source.capture == unit.capture)
        op = &candidate.source;
    }
    const std::string id = list.Add(*op, "href");
    operands.push_back(Operand(state, "ref", "reference", unit.capture, 0, unit));
    operands.push_back(Operand(state, "repeat", "candidate", unit.capture, 1, unit));
    comparisons.push_back(Comparison(kNoiseComparison, id, "repeat", id));
  } else {
    const std::string ref_head = list.Add(run.reference, "href");
    operands.push_back(Operand(state, "ref", "reference", run.reference.capture, 0, unit));
    for (const uint32_t index : unit.candidates) {
      const CandidateRow& candidate = run.candidates[index];
      const std::string id = "cand" + std::to_string(index);
      operands.push_back(Operand(state, id, "candidate", candidate.source.capture, 0, unit));
      for (const std::string& mode : HeadModes(run, candidate)) {
        const std::string head = mode == "own" ? list.Add(candidate.source, "h" + id) : ref_head;
        comparisons.push_back(Comparison(ComparisonId(index, mode), ref_head, id, head));
      }
    }
  }
  ASSAY_ASSIGN_OR_RETURN(Json contexts,
                         ReplayContexts(suite, unit, static_cast<size_t>(run.score_from)));
  return Json{{"kind", "replay"},
              {"policy", run.numeric_policy},
              {"backend", core::UnitBackend(run)},
              {"row_tile", run.row_tile},
              {"valid_vocab", run.valid_vocab == 0 ? Json(nullptr) : Json(run.valid_vocab)},
              {"softcap", run.softcap == 0 ? Json(nullptr) : Json(run.softcap)},
              {"allow_infinite", run.allow_infinite},
              {"score_from", run.score_from},
              {"vocab_chunk", run.vocab_chunk == 0 ? Json(nullptr) : Json(run.vocab_chunk)},
              {"heads", std::move(heads)},
              {"operands", std::move(operands)},
              {"contexts", std::move(contexts)},
              {"comparisons", std::move(comparisons)}};
}

absl::StatusOr<Json> DocumentJson(const State& state, const UnitRow& unit, const Suite* suite) {
  if (unit.kind == UnitKind::kPrepare) {
    ASSAY_ASSIGN_OR_RETURN(Json model, ModelJson(state, unit.model));
    return Json{{"kind", "prepare"}, {"model", std::move(model)}};
  }
  if (suite == nullptr)
    return InternalError("CONTEXT_MISSING", "a unit with contexts needs its suite");
  if (core::IsReplay(unit.kind)) return ReplayJson(state, unit, *suite);
  ASSAY_ASSIGN_OR_RETURN(Json model, ModelJson(state, unit.model));
  ASSAY_ASSIGN_OR_RETURN(Json contexts, CaptureContexts(*suite, unit));
  return Json{{"kind", "capture"},
              {"model", std::move(model)},
              {"contexts", std::move(contexts)},
              {"taps", Json::array()},
              {"fresh_ranks", unit.kind == UnitKind::kRepeat}};
}

}  // namespace

std::string ComparisonId(size_t candidate, std::string_view mode) {
  return "cand" + std::to_string(candidate) + "/" + std::string(mode);
}

std::string_view LeaseKind(UnitKind kind) {
  switch (kind) {
    case UnitKind::kPrepare:
      return "prepare";
    case UnitKind::kCapture:
    case UnitKind::kRepeat:
      return "capture";
    case UnitKind::kReplay:
    case UnitKind::kNoise:
      return "replay";
  }
  return "unknown";
}

std::set<std::string> BlobsOfUnit(const State& state, const UnitRow& unit) {
  std::set<std::string> blobs;
  if (!core::IsReplay(unit.kind)) return blobs;
  RunRow run = state.runs.at(unit.run);
  for (const OperandRow* op : core::LiveOperands(&run)) {
    if (const auto head = state.heads.find(op->head); head != state.heads.end())
      blobs.insert(head->second.file_sha256);
    if (!op->bias_file.empty()) blobs.insert(op->bias_file);
    const auto files = state.files.find(op->capture);
    if (files == state.files.end()) continue;
    for (const FileMap& generation : files->second) {
      for (const int64_t index : unit.contexts) {
        if (const auto file = generation.find(index); file != generation.end())
          blobs.insert(file->second.sha256);
      }
    }
  }
  return blobs;
}

std::string SuiteOfUnit(const State& state, const UnitRow& unit) {
  if (unit.kind == UnitKind::kPrepare) return "";
  return unit.run.empty() ? state.captures.at(unit.capture).suite : state.runs.at(unit.run).suite;
}

absl::StatusOr<std::string> BuildUnitDocument(const State& state, const UnitRow& unit,
                                              const Suite* suite) {
  ASSAY_ASSIGN_OR_RETURN(const Json json, DocumentJson(state, unit, suite));
  std::string text = json.dump();
  if (text.size() > kUnitDocumentBytesMax) {
    return InternalError("UNIT_TOO_LARGE", "the document of unit " + std::to_string(unit.id) +
                                               " has " + std::to_string(text.size()) +
                                               " bytes; use fewer contexts per unit");
  }
  return text;
}

}  // namespace assay
