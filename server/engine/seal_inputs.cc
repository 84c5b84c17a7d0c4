#include "server/engine/seal_inputs.h"

#include <set>

#include "server/core/apply.h"
#include "server/core/unit_document.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/model_manifest.h"
#include "storage/format/safetensors.h"
#include "storage/report/operand_info.h"

namespace assay {
namespace {

using Files = std::vector<std::shared_ptr<const SafetensorsFile>>;

OperandInputs CopyOperand(const State& state, const OperandRow& source) {
  OperandInputs out;
  out.source = source;
  out.capture = state.captures.at(source.capture);
  out.head = state.heads.at(source.head);
  const std::string& model = source.model.empty() ? out.capture.model : source.model;
  if (const auto it = state.models.find(model); it != state.models.end()) out.model = it->second;
  if (const auto it = state.files.find(source.capture); it != state.files.end()) {
    out.first = it->second[0];
    out.repeat = it->second[1];
  }
  return out;
}

std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

bool Flag(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

// What the capture holds of the run's contexts, as a manifest would say it.
CaptureManifest ManifestOf(const OperandInputs& rows, const SealRows& all,
                           CaptureManifest manifest) {
  manifest.suite_token_sha256 = all.suite.suite_token_sha256;
  manifest.cut_point = rows.capture.cut_point;
  for (const int64_t index : all.run.contexts) {
    const CaptureFileRow& file = rows.first.at(index);
    manifest.records.push_back(
        {index, file.sha256, static_cast<uint64_t>(file.rows), static_cast<uint64_t>(file.width)});
  }
  return manifest;
}

absl::StatusOr<OperandInfo> OperandOf(const OperandInputs& rows, const SealRows& all) {
  if (!rows.capture.manifest_json.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const Json json,
                           ParseJson(rows.capture.manifest_json, "capture manifest"));
    ASSAY_ASSIGN_OR_RETURN(CaptureManifest manifest, FromPortableManifest(json));
    return DescribeCapture(ManifestOf(rows, all, std::move(manifest)));
  }
  OperandInfo out;
  out.capture.content_sha256 = ManifestOf(rows, all, {}).ContentSha256();
  out.capture.schema = std::string(kCaptureSchema);
  out.capture.cut_point = rows.capture.cut_point;
  ASSAY_ASSIGN_OR_RETURN(Json identity, ParseJson(rows.capture.identity_json, "capture identity"));
  if (rows.capture.origin == "native") {
    out.capture.engine = std::move(identity);
  } else {
    out.capture.stack = std::move(identity);
  }
  if (!rows.capture.declared_json.empty()) {
    ASSAY_ASSIGN_OR_RETURN(out.declared_identity,
                           ParseJson(rows.capture.declared_json, "declared identity"));
  }
  if (!rows.model) return out;
  ASSAY_ASSIGN_OR_RETURN(const Json manifest,
                         ParseJson(rows.model->manifest_json, "model manifest"));
  ASSAY_ASSIGN_OR_RETURN(const ModelManifest parsed,
                         ParseModelManifest(manifest, "model manifest"));
  out.model = parsed.ToJson();
  out.model_identity = parsed.Identity();
  if (rows.model->facts_json.empty()) return out;
  ASSAY_ASSIGN_OR_RETURN(const Json facts, ParseJson(rows.model->facts_json, "model facts"));
  out.architecture = Text(facts, "architecture");
  out.family = Text(facts, "family");
  out.sizes = SizesOfFacts(facts);
  return out;
}

// What the model's facts say that a reader must know, wherever the operand's facts lie.
absl::Status AddFactsDisclosures(const OperandInputs& rows, std::string_view name,
                                 std::vector<Disclosure>* out) {
  std::vector<Disclosure> found;
  if (!rows.capture.manifest_json.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const Json json,
                           ParseJson(rows.capture.manifest_json, "capture manifest"));
    ASSAY_ASSIGN_OR_RETURN(const CaptureManifest manifest, FromPortableManifest(json));
    found = DisclosuresOfCapture(manifest, name);
  } else if (rows.model && !rows.model->facts_json.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const Json facts, ParseJson(rows.model->facts_json, "model facts"));
    found = DisclosuresOfFacts(facts, name);
  }
  out->insert(out->end(), found.begin(), found.end());
  return absl::OkStatus();
}

// What a client says of a head that it rounded before it sent it.
absl::Status AddOrigin(const std::string& origin_json, HeadIdentity* out) {
  if (origin_json.empty()) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const Json origin, ParseJson(origin_json, "head origin"));
  out->tied = Flag(origin, "tied");
  if (const std::string dtype = Text(origin, "original_dtype"); !dtype.empty())
    out->original_dtype = dtype;
  out->original_sha256 = Text(origin, "original_sha256");
  return absl::OkStatus();
}

// A head extracted by PREPARE is bf16 already; the model's facts say what it was before.
absl::StatusOr<HeadIdentity> HeadOf(const OperandInputs& rows, const RunRow& run) {
  HeadIdentity out;
  out.vocab = static_cast<uint64_t>(rows.head.vocab);
  out.hidden = static_cast<uint64_t>(rows.head.hidden);
  out.rounded_sha256 = rows.head.id;
  out.original_dtype = rows.head.dtype;
  if (rows.model && rows.model->head == rows.head.id && !rows.model->facts_json.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const Json facts, ParseJson(rows.model->facts_json, "model facts"));
    out.tied = Flag(facts, "tied");
    if (const std::string format = Text(facts, "head_storage_format"); !format.empty())
      out.original_dtype = format;
  }
  ASSAY_RETURN_IF_ERROR(AddOrigin(rows.source.head_origin_json, &out));
  if (run.logit_scale != 0 && run.logit_scale != 1) out.logit_scale = run.logit_scale;
  out.bias_sha256 = rows.source.bias;
  if (out.original_dtype == "BF16") {
    out.original_sha256 = out.rounded_sha256;
  } else {
    out.rounding = "bf16-rne";
  }
  return out;
}

absl::StatusOr<Files> OpenResults(const std::vector<UnitRow>& units, const BlobStore& blobs,
                                  NumericInfo* numeric) {
  Files files;
  for (const UnitRow& unit : units) {
    ASSAY_ASSIGN_OR_RETURN(
        const Json result,
        ParseJson(unit.result_json, "result of unit " + std::to_string(unit.id)));
    const std::string sha256 = Text(result, "sha256");
    ASSAY_RETURN_IF_ERROR(blobs.Verify(sha256));
    ASSAY_ASSIGN_OR_RETURN(const std::string path, blobs.LocalPath(sha256));
    ASSAY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
    files.push_back(std::move(file));
    if (numeric == nullptr) continue;
    const std::string backend = Text(result, "backend");
    if (numeric->backend.empty()) numeric->backend = backend;
    if (backend != numeric->backend) {
      return PreconditionError("BACKEND_DIFFERS", "unit " + std::to_string(unit.id) + " used the " +
                                                      backend + " backend, the others " +
                                                      numeric->backend + "; start a fresh run");
    }
  }
  return files;
}

// Whether any unit rounded the reference's or this candidate's hidden states.
bool Rounded(const SealRows& rows) {
  for (const UnitRow& unit : rows.replay) {
    const auto result = ParseJson(unit.result_json, "result");
    if (!result.ok() || !result->contains("rounded_operands")) continue;
    for (const Json& id : result->at("rounded_operands")) {
      if (id == "ref" || id == "cand" + std::to_string(rows.candidate)) return true;
    }
  }
  return false;
}

absl::StatusOr<std::optional<RepeatedCapture>> RepeatOf(const SealRows& rows,
                                                        const OperandInputs& operand,
                                                        const std::string& name,
                                                        const BlobStore& blobs) {
  if (!rows.run.repeat_sentinels || rows.run.sentinels.empty() ||
      !operand.source.given_capture.empty()) {
    return std::nullopt;
  }
  RepeatedCapture out;
  out.operand = name;
  out.positions_per_context = static_cast<uint64_t>(ScoredPositions(rows.run));
  std::vector<ContextRows> differing;
  for (const int64_t index : rows.run.sentinels) {
    const auto repeat = operand.repeat.find(index);
    if (repeat == operand.repeat.end()) return std::nullopt;  // the repeat failed: not measured
    const std::string& first = operand.first.at(index).sha256;
    out.contexts.push_back({index, first, repeat->second.sha256});
    if (first != repeat->second.sha256) differing.push_back({index, out.positions_per_context});
  }
  if (differing.empty()) return out;
  std::vector<UnitRow> units;
  for (const UnitRow& unit : rows.noise) {
    if (unit.capture == operand.source.capture) units.push_back(unit);
  }
  ASSAY_ASSIGN_OR_RETURN(const Files files, OpenResults(units, blobs, nullptr));
  ASSAY_ASSIGN_OR_RETURN(const PositionArrays arrays,
                         AssemblePositions(files, kNoiseComparison, differing));
  out.kl_of_differing = arrays[F64Output::kKlRefCand];
  return out;
}

// Canonical JSON holds integers up to 2^53; what workers count or say may be larger.
Json WithoutHugeIntegers(const Json& value) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  if (value.is_object() || value.is_array()) {
    Json out = value;
    for (Json& item : out) item = WithoutHugeIntegers(item);
    return out;
  }
  if (value.is_number_unsigned() && value.get<uint64_t>() > kExact)
    return std::to_string(value.get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() &&
      value.get<int64_t>() < -static_cast<int64_t>(kExact))
    return std::to_string(value.get<int64_t>());
  return value;
}

Json AttemptJson(const AttemptRow& a) {
  Json json = {{"worker", a.worker},       {"incarnation", a.incarnation},
               {"build", a.build},         {"tp", a.tp},
               {"lease", a.lease},         {"kernel_identity_sha256", a.identity_sha256},
               {"started_ms", a.start_ms}, {"ended_ms", a.end_ms},
               {"outcome", a.outcome},     {"compute_ms", a.wall_ms}};
  const auto parsed = [](const std::string& text) {
    const auto value = ParseJson(text, "record");
    return value.ok() ? WithoutHugeIntegers(*value) : Json(nullptr);
  };
  json["host"] = a.host_json.empty() ? Json(nullptr) : parsed(a.host_json);
  if (a.rank_attempts > 0) json["rank_attempts"] = a.rank_attempts;
  json["counters"] = a.counters_json.empty() ? Json(nullptr) : parsed(a.counters_json);
  return json;
}

}  // namespace

SealRows CopySealRows(const State& state, const std::string& run_id, size_t candidate) {
  SealRows out;
  out.run = state.runs.at(run_id);
  out.candidate = candidate;
  out.suite = state.suites.at(out.run.suite);
  out.reference = CopyOperand(state, out.run.reference);
  out.operand = CopyOperand(state, out.run.candidates[candidate].source);
  if (const auto it = state.units_of_run.find(run_id); it != state.units_of_run.end()) {
    for (const uint64_t id : it->second) {
      const UnitRow& unit = state.units.at(id);
      if (unit.state != UnitState::kDone) continue;
      if (unit.checks != 0) {
        out.others.push_back(unit);
        continue;
      }
      (unit.kind == UnitKind::kReplay ? out.replay : out.noise).push_back(unit);
    }
  }
  std::set<uint64_t> others;
  for (const OperandInputs* op : {&out.reference, &out.operand}) {
    for (const auto& [map, key] : {std::pair(&state.units_of_model, op->source.model),
                                   std::pair(&state.units_of_capture, op->source.capture)}) {
      if (const auto it = map->find(key); it != map->end())
        others.insert(it->second.begin(), it->second.end());
    }
  }
  for (const uint64_t id : others) out.others.push_back(state.units.at(id));
  return out;
}

absl::StatusOr<ReportInputs> MakeReportInputs(const SealRows& rows, const Suite& suite,
                                              const BlobStore& blobs) {
  const RunRow& run = rows.run;
  ReportInputs in;
  in.suite = {suite.schema,          suite.suite_token_sha256, suite.manifest_sha256, run.filter,
              suite.contexts.size(), suite.context_length,     run.score_from,        run.limit,
              suite.vocab_size};
  std::map<int64_t, const SuiteContext*> by_index;
  for (const SuiteContext& context : suite.contexts) by_index[context.index] = &context;
  std::vector<ContextRows> contexts;
  const auto positions = static_cast<uint64_t>(ScoredPositions(run));
  for (const int64_t index : run.contexts) {
    const SuiteContext& c = *by_index.at(index);
    in.contexts.push_back({index, c.stratum, c.source_cluster, c.partition, positions});
    contexts.push_back({index, positions});
  }
  ASSAY_ASSIGN_OR_RETURN(in.reference, OperandOf(rows.reference, rows));
  ASSAY_ASSIGN_OR_RETURN(in.candidate, OperandOf(rows.operand, rows));
  ASSAY_RETURN_IF_ERROR(AddFactsDisclosures(rows.reference, "reference", &in.disclosures));
  ASSAY_RETURN_IF_ERROR(AddFactsDisclosures(rows.operand, "candidate", &in.disclosures));
  in.numeric.policy = run.numeric_policy;
  ASSAY_ASSIGN_OR_RETURN(in.numeric.kernel_identity,
                         ParseJson(run.replay_identity_json, "replay identity"));
  if (run.valid_vocab != 0) in.numeric.valid_vocab = run.valid_vocab;
  if (run.softcap != 0) in.numeric.softcap = run.softcap;
  if (run.vocab_chunk != 0) in.numeric.vocab_chunk = run.vocab_chunk;
  in.numeric.allow_infinite = run.allow_infinite;
  ASSAY_ASSIGN_OR_RETURN(const Files files, OpenResults(rows.replay, blobs, &in.numeric));
  if (in.numeric.backend.empty()) in.numeric.backend = Text(in.numeric.kernel_identity, "backend");
  if (Rounded(rows)) in.numeric.operand_rounding = "bf16-rne";
  ASSAY_ASSIGN_OR_RETURN(const HeadIdentity ref_head, HeadOf(rows.reference, run));
  ASSAY_ASSIGN_OR_RETURN(const HeadIdentity own_head, HeadOf(rows.operand, run));
  for (const std::string& mode : HeadModes(run, run.candidates[rows.candidate])) {
    HeadResult result;
    result.reference_head = ref_head;
    result.candidate_head = mode == "own" ? own_head : ref_head;
    ASSAY_ASSIGN_OR_RETURN(result.arrays,
                           AssemblePositions(files, ComparisonId(rows.candidate, mode), contexts));
    in.heads.emplace(mode, std::move(result));
  }
  ASSAY_ASSIGN_OR_RETURN(auto ref_repeat, RepeatOf(rows, rows.reference, "reference", blobs));
  ASSAY_ASSIGN_OR_RETURN(auto own_repeat, RepeatOf(rows, rows.operand, "candidate", blobs));
  if (ref_repeat) in.repeats.push_back(*std::move(ref_repeat));
  if (own_repeat) in.repeats.push_back(*std::move(own_repeat));
  return in;
}

absl::Status AddPublishedInputs(const SealRows& rows, std::vector<InputDigest>* inputs) {
  const std::pair<const char*, const OperandInputs*> operands[] = {{"reference", &rows.reference},
                                                                   {"candidate", &rows.operand}};
  for (const auto& [name, operand] : operands) {
    if (operand->capture.manifest_json.empty()) continue;
    ASSAY_ASSIGN_OR_RETURN(const Json json,
                           ParseJson(operand->capture.manifest_json, "capture manifest"));
    const std::string sha256 = Text(json, "manifest_sha256");
    if (!sha256.empty()) inputs->push_back({std::string(name) + ".capture-manifest", sha256});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MakeExecution(const SealRows& rows, const std::string& report_sha256,
                                          const std::string& build_id) {
  Json json = Json::object();
  json["schema"] = "assay-execution/1";
  json["report_sha256"] = report_sha256;
  json["run"] = "runs/" + rows.run.id;
  json["label"] = rows.run.candidates[rows.candidate].label;
  json["reference_label"] = rows.run.reference_label;
  json["principal"] = rows.run.principal;
  json["coordinator_build"] = build_id;
  json["created_ms"] = rows.run.create_ms;
  json["computed_ms"] = rows.run.seal_ms;
  json["unit_contexts"] = rows.run.unit_contexts;
  json["row_tile"] = rows.run.row_tile;
  Json units = Json::array();
  for (const auto* list : {&rows.others, &rows.replay, &rows.noise}) {
    for (const UnitRow& unit : *list) {
      // Units of shared captures that are still open belong to other runs.
      if (unit.state != UnitState::kDone) continue;
      Json attempts = Json::array();
      for (const AttemptRow& attempt : unit.attempts) attempts.push_back(AttemptJson(attempt));
      units.push_back({{"unit", unit.id},
                       {"kind", UnitKindName(unit.kind)},
                       {"model", unit.model},
                       {"capture", unit.capture},
                       {"contexts", unit.contexts},
                       {"result_sha256", unit.result_sha256},
                       {"attempts", std::move(attempts)}});
      if (unit.checks != 0) units.back()["checks"] = unit.checks;
    }
  }
  json["units"] = std::move(units);
  return CanonicalJson(json);
}

}  // namespace assay
