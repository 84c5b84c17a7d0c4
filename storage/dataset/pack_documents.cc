#include "storage/dataset/pack_documents.h"

#include <algorithm>

#include "storage/base/digest.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/finding.h"
#include "storage/dataset/scope.h"

namespace assay {
namespace {

constexpr const char* kHiddenPoint = "after_final_rmsnorm_before_lm_head";
constexpr const char* kLogitPoint = "lm_head_output_before_sampling";
constexpr size_t kEdgeTokens = 16;

const Json& Given(const DatasetPackRequest& request, std::initializer_list<const char*> path) {
  return DatasetMember(request.description, path);
}

std::string Text(const DatasetPackRequest& request, const char* key, const char* otherwise) {
  return DatasetString(Given(request, {key})).value_or(otherwise);
}

std::string Padded(int64_t index) {
  const std::string digits = std::to_string(index);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

uint64_t Rows(const DatasetPackRequest& request) {
  return static_cast<uint64_t>(request.suite.context_length) - 1;
}

// What a panel record and its capture record have in common.
Json SharedMembers(const DatasetPackRequest& request, size_t position) {
  const SuiteContext& context = request.suite.contexts[position];
  Json out = Json::object();
  for (const char* key : {"index", "context_index", "window_index"}) out[key] = context.index;
  out["window_id"] = "context-" + Padded(context.index);
  out["role"] = nullptr;
  out["domain"] = context.stratum;
  out["document_id"] = context.source_cluster;
  out["allocation_stratum"] = context.stratum;
  out["semantic_class"] = nullptr;
  out["source_cluster_id"] = context.source_cluster;
  out["token_ids_json_sha256"] = Sha256Hex(CompactTokens(context.tokens));
  out["token_ids_sha256_legacy"] = Sha256Hex(TokenFileBytes(context.tokens));
  out["prediction_positions"] = Rows(request);
  const Json& list = Given(request, {"panel", "records"});
  if (list.is_array() && position < list.size()) {
    for (const auto& [key, value] : list[position].items()) {
      if (out.contains(key)) out[key] = value;
    }
  }
  return out;
}

Json Tokenizer(const DatasetPackRequest& request) {
  return Merged({{"id", "unknown"},
                 {"repository", nullptr},
                 {"revision", nullptr},
                 {"vocab_size", request.suite.vocab_size},
                 {"add_special_tokens", nullptr},
                 {"chat_template_applied", nullptr}},
                Given(request, {"panel", "tokenizer"}));
}

Json ScoringWindow(const DatasetPackRequest& request) {
  return Merged({{"score_from", 0},
                 {"windowed", false},
                 {"min_left_context_tokens", 1},
                 {"dropped_positions_total", 0},
                 {"policy", "every causal prediction position is scored"}},
                Given(request, {"panel", "scoring_window"}));
}

Json Contamination(const DatasetPackRequest& request) {
  return Merged(
      {{"checked", false}, {"method", "not checked"}, {"hits", nullptr}, {"receipt", nullptr}},
      Given(request, {"panel", "contamination"}));
}

std::string LegacySuiteHash(const Json& records) {
  std::string text;
  for (const Json& record : records) text += record["token_ids_json_sha256"].get<std::string>();
  return Sha256Hex(text);
}

Json Coverage(const DatasetPackRequest& request, const PackedDocuments& parts) {
  std::vector<bool> present(request.suite.contexts.size());
  int64_t low = INT64_MAX, high = -1;
  for (const PackedRecord& record : parts.records) {
    present[record.position] = true;
    const int64_t index = request.suite.contexts[record.position].index;
    low = std::min(low, index);
    high = std::max(high, index);
  }
  Json missing = Json::array();
  bool in_order = true;
  for (size_t i = 0; i < present.size(); ++i) {
    const int64_t index = request.suite.contexts[i].index;
    in_order = in_order && index == static_cast<int64_t>(i);
    if (!present[i] && missing.size() < 8) missing.push_back(index);
  }
  const bool complete = missing.empty() && in_order;
  Json out = {{"declared_records", present.size()},
              {"present_records", parts.records.size()},
              {"complete", complete},
              {"index_range", high < 0 ? Json({0, -1}) : Json({low, high})},
              {"shard_of", nullptr},
              {"subset_detail", nullptr},
              {"missing_indices_sample", missing}};
  if (!complete) {
    out["subset_detail"] = std::to_string(parts.records.size()) + " of " +
                           std::to_string(present.size()) + " contexts of the suite";
  }
  return Merged(out, Given(request, {"coverage"}));
}

uint64_t TotalRows(const PackedDocuments& parts) {
  uint64_t rows = 0;
  for (const PackedRecord& record : parts.records) rows += record.rows;
  return rows;
}

uint64_t TotalBytes(const PackedDocuments& parts) {
  uint64_t bytes = 0;
  for (const PackedRecord& record : parts.records) bytes += record.bytes;
  return bytes;
}

// form, semantic_point, tensor_key, dtype, dtype_lossless, hidden_width, vocab_size of the capture.
Json FormMembers(const DatasetPackRequest& request, const PackedDocuments& parts) {
  const bool hidden = request.form == DatasetForm::kHidden;
  const PackedRecord& first = parts.records.front();
  Json out = Json::object();
  out["form"] = hidden ? "hidden" : "logit";
  out["semantic_point"] = hidden ? kHiddenPoint : kLogitPoint;
  out["tensor_key"] = hidden ? "hidden_states" : "logits";
  out["dtype"] = first.dtype;
  const Json& lossless = Given(request, {"capture", "dtype_lossless"});
  out["dtype_lossless"] = lossless.is_boolean() ? lossless : Json(true);
  out["hidden_width"] = hidden ? Json(first.width) : Json();
  out["vocab_size"] = parts.head.vocab;
  return out;
}

Json CaptureBlock(const DatasetPackRequest& request, const PackedDocuments& parts) {
  const bool hidden = request.form == DatasetForm::kHidden;
  Json out = FormMembers(request, parts);
  out["manifest_file"] = "capture/manifest.json";
  out["manifest_file_sha256"] = parts.capture_sha256;
  out["capture_content_digest"] = parts.capture.at("capture_content_digest");
  out["head_separable"] = hidden;
  out["head_not_separable_reason"] = hidden ? Json() : Json("logits stored");
  out["records_count"] = parts.records.size();
  out["total_size_bytes"] = TotalBytes(parts);
  out["scored_rows_total"] = TotalRows(parts);
  out["lossy_codec"] = nullptr;
  Json given = Given(request, {"capture"});
  if (given.is_object()) given.erase("record");
  return Merged(out, given);
}

Json PanelBlock(const DatasetPackRequest& request, const PackedDocuments& parts) {
  const Json& panel = parts.panel;
  Json out = Json::object();
  out["panel_id"] = panel.at("panel_id");
  out["panel_file"] = "panel/panel.json";
  out["panel_file_sha256"] = parts.panel_sha256;
  for (const char* key :
       {"suite_token_hash_sha256", "panel_token_sha256_legacy", "panel_receipt_sha256",
        "repository", "revision", "contexts", "context_length", "scored_positions_total",
        "scoring_window", "tokenizer", "contamination"}) {
    out[key] = panel.at(key);
  }
  out["panel_receipt_file"] = nullptr;
  out["remap_file"] = nullptr;
  return out;
}

Json Determinism(const DatasetPackRequest& request, const PackedDocuments& parts) {
  return Merged(
      {{"run_count", 1},
       {"cold_start_per_run", true},
       {"evidence_kind", request.form == DatasetForm::kHidden ? "hidden_state_tensor_sha256"
                                                              : "logits_tensor_sha256"},
       {"evidence_hashes", Json::array({parts.capture.at("capture_content_digest")})},
       {"distinct_evidence_hash_count", 1},
       {"identical_across_runs", nullptr},
       {"repeats", Json::array()},
       {"repeat_noise", nullptr},
       {"note", nullptr}},
      Given(request, {"determinism"}));
}

Json Scope(const DatasetPackRequest& request) {
  Json out = Merged({{"policy", "unknown"},
                     {"head_policy", "unknown"},
                     {"kv_cache_dtype", "unknown"},
                     {"assignments", Json::array({{{"tensor_class", "other"},
                                                   {"treatment", "unknown"},
                                                   {"format", "unknown"},
                                                   {"bits_per_weight", nullptr},
                                                   {"layer_range", nullptr}}})}},
                    Given(request, {"scope"}));
  out["scope_digest"] = DatasetScopeDigest(out);
  return out;
}

Json Weights(const DatasetPackRequest& request) {
  return Merged({{"repository", "unknown"},
                 {"revision", nullptr},
                 {"model_revision", nullptr},
                 {"quantized", false},
                 {"config_sha256", nullptr},
                 {"index_sha256", nullptr},
                 {"checkpoint_identity_sha256", nullptr},
                 {"artifact_ref", nullptr},
                 {"model_ref", nullptr},
                 {"codec", nullptr},
                 {"declared_bits", nullptr},
                 {"declared_head_bits", nullptr}},
                Given(request, {"weights"}));
}

Json DatasetBlock(const DatasetPackRequest& request) {
  return Merged({{"role", "quant"},
                 {"structural_status", "sealed"},
                 {"qualification", nullptr},
                 {"author",
                  {{"name", "unknown"},
                   {"role", "capture-author"},
                   {"handle", nullptr},
                   {"url", nullptr},
                   {"is_registry_maintainer", false}}},
                 {"license", nullptr},
                 {"repository", nullptr},
                 {"revision", nullptr},
                 {"base_capture", nullptr}},
                Given(request, {"dataset"}));
}

Json Seal(const DatasetPackRequest& request, const PackedDocuments& parts) {
  return Merged({{"method", "self_blanked_canonical_json_sha256"},
                 {"seal_field", "dataset_sha256"},
                 {"checksums_file", "checksums.txt"},
                 {"checksums_format", "sha256sum"},
                 {"checksums_sha256", parts.checksums_sha256},
                 {"covers",
                  {"files through checksums.txt", "the manifest through its own seal",
                   "tensors through capture_content_digest"}},
                 {"excludes", {"checksums.txt", "fidelity-dataset.json"}},
                 {"external_anchor", nullptr}},
                Given(request, {"seal"}));
}

Json Interop(const DatasetPackRequest& request) {
  Json divergences = Json::array();
  for (int i = 1; i <= 10; ++i) {
    divergences.push_back(
        {{"id", "D-" + std::to_string(i)}, {"field", "unknown"}, {"reason", "see the format"}});
  }
  return Merged({{"compatible_with", Json::array({"kimi-k3-distribution-fidelity/1"})},
                 {"k3_compat_emitted", false},
                 {"adapted_from", nullptr},
                 {"divergences", divergences},
                 {"note", nullptr}},
                Given(request, {"interop"}));
}

}  // namespace

Json Merged(Json base, const Json& given) {
  if (!given.is_object()) return given.is_null() ? base : given;
  if (!base.is_object()) return given;
  for (const auto& [key, value] : given.items()) {
    base[key] = base.contains(key) && value.is_object() && base[key].is_object()
                    ? Merged(base[key], value)
                    : value;
  }
  return base;
}

Json Sealed(Json document, const char* field) {
  document[field] = DatasetSeal(document, field);
  return document;
}

std::string CompactTokens(const std::vector<int32_t>& tokens) {
  std::string out = "[";
  for (size_t i = 0; i < tokens.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(tokens[i]);
  return out + "]";
}

Json PanelDocument(const DatasetPackRequest& request, const PackedDocuments& parts) {
  const std::string id = DatasetString(Given(request, {"dataset", "id"})).value_or("unknown");
  Json out = {{"schema", "malaiwah.fidelity-panel-binding.v1"},
              {"format_version", 1},
              {"panel_id", "panel--" + id},
              {"name", id},
              {"repository", nullptr},
              {"revision", nullptr},
              {"panel_receipt_sha256", nullptr},
              {"strata", Json::object()}};
  Json given = Given(request, {"panel"});
  const Json rows = given.is_object() && given.contains("records") ? given["records"] : Json();
  if (given.is_object()) given.erase("records");
  out = Merged(out, given);
  out["tokenizer"] = Tokenizer(request);
  out["scoring_window"] = ScoringWindow(request);
  out["contamination"] = Contamination(request);
  out["token_digest_algorithm"] = {
      {"per_record", "sha256(json.dumps(ids, separators=(',',':')).encode('utf-8'))"},
      {"aggregate", "sha256('\\n'.join(per_record_hex).encode('ascii'))"},
      {"legacy_per_record", "sha256(json.dumps(ids).encode('utf-8'))"},
      {"legacy_aggregate", "sha256(''.join(per_record_hex).encode('utf-8'))"}};
  Json records = Json::array();
  for (size_t i = 0; i < request.suite.contexts.size(); ++i) {
    const SuiteContext& context = request.suite.contexts[i];
    Json record = SharedMembers(request, i);
    record["token_file"] = "panel/tokens/context-" + Padded(context.index) + ".json";
    const size_t edge = std::min(kEdgeTokens, context.tokens.size());
    record["token_ids_first16"] =
        std::vector<int32_t>(context.tokens.begin(), context.tokens.begin() + edge);
    record["token_ids_last16"] =
        std::vector<int32_t>(context.tokens.end() - edge, context.tokens.end());
    record["num_tokens"] = context.tokens.size();
    const bool mask = !parts.masks.empty();
    record["attention_mask_file"] =
        mask ? Json("panel/masks/context-" + Padded(context.index) + ".npy") : Json();
    record["attention_mask_sha256"] = mask ? Json(parts.masks[i]) : Json();
    record["partition"] = context.partition;
    record["sentinel"] = context.sentinel;
    if (rows.is_array() && i < rows.size()) record = Merged(record, rows[i]);
    records.push_back(std::move(record));
  }
  out["suite_token_hash_sha256"] = DatasetSuiteHash(records);
  out["panel_token_sha256_legacy"] = LegacySuiteHash(records);
  out["contexts"] = records.size();
  out["context_length"] = request.suite.context_length;
  out["positions_per_context"] = Rows(request);
  out["scored_positions_total"] = Rows(request) * records.size();
  out["records"] = std::move(records);
  return Sealed(std::move(out), "receipt_sha256");
}

Json RuntimeDocument(const DatasetPackRequest& request) {
  Json out = {{"schema", "malaiwah.fidelity-capture-runtime.v1"},
              {"format_version", 1},
              {"lane", "other"},
              {"lane_inferred", true},
              {"lane_identity_sha256", nullptr},
              {"lane_identity_inputs",
               {"torch_version", "cuda_runtime_version", "device_name", "grouped_mm_kernel",
                "numeric_policy", "attention_backend", "experts_implementation", "parallelism",
                "ep_emulate", "reduce_order"}},
              {"stack_fingerprint", {{"schema", "malaiwah.stack-fingerprint.v1"}}},
              {"container",
               {{"image_digest", nullptr},
                {"image_reference", nullptr},
                {"image_repository_digest", nullptr}}},
              {"runtime_environment", Json::object()},
              {"source_files", Json::object()},
              {"capture_tool", Json::object()},
              {"weights", Json::object()},
              {"upstream_receipts", Json::array()}};
  Json given = Given(request, {"runtime"});
  if (given.is_object()) given.erase("source");  // of the manifest's block
  out = Merged(out, given);
  const Json stack = out["stack_fingerprint"];  // a copy: members are added below
  out["stack_fingerprint_sha256"] = Sha256Hex(PythonCanonJson(stack));
  if (stack.contains("torch_version") && stack.contains("device_name")) {
    const auto python = [](const Json& value) {
      return value.is_null() ? std::string("None") : DatasetText(value);
    };
    out["lane_identity_sha256"] =
        Sha256Hex(DatasetText(out["lane"]) + "|" + python(stack["torch_version"]) + "|" +
                  python(stack["device_name"]));
  }
  return Sealed(std::move(out), "receipt_sha256");
}

Json HeadDocument(const DatasetPackRequest& request, const PackedDocuments& parts) {
  const PackedHead& head = parts.head;
  Json out = {{"schema", "malaiwah.fidelity-head-identity.v1"},
              {"format_version", 1},
              {"present", true},
              {"file", "head/weight.safetensors"},
              {"tensor_key", head.tensor},
              {"compat_tensor_key", "weight"},
              {"shape", {head.vocab, head.hidden}},
              {"dtype", head.dtype},
              {"file_sha256", head.file_sha256},
              {"raw_tensor_sha256", head.content_sha256},
              {"tensor_content_sha256", head.content_sha256},
              {"quantized", nullptr},
              {"bits", nullptr},
              {"source", "unknown"},
              {"applied_in_capture", request.form == DatasetForm::kLogit},
              {"bias", nullptr},
              {"final_norm",
               {{"file", nullptr},
                {"tensor_key", nullptr},
                {"shape", nullptr},
                {"dtype", nullptr},
                {"file_sha256", nullptr},
                {"tensor_content_sha256", nullptr},
                {"applied_in_capture", true},
                {"applied_at_replay", false}}},
              {"equality_receipt", nullptr},
              {"note", nullptr}};
  return Sealed(Merged(out, Given(request, {"head"})), "receipt_sha256");
}

Json CaptureDocument(const DatasetPackRequest& request, const PackedDocuments& parts) {
  Json records = Json::array();
  for (const PackedRecord& packed : parts.records) {
    Json record = SharedMembers(request, packed.position);
    record["file"] = packed.file;
    record["key"] = request.form == DatasetForm::kHidden ? "hidden_states" : "logits";
    record["dtype"] = packed.dtype;
    record["shape"] = {packed.rows, packed.width};
    record["size_bytes"] = packed.bytes;
    record["sha256"] = packed.sha256;
    record["payload_sha256"] = packed.content_sha256;
    record["tensor_content_sha256"] = packed.content_sha256;
    record["attention_mask_sha256"] =
        parts.masks.empty() ? Json() : Json(parts.masks[packed.position]);
    record["scored_rows"] = packed.rows;
    record["elapsed_seconds"] = nullptr;
    record["request_id"] = nullptr;
    record["raw_chunks_retained"] = false;
    records.push_back(Merged(record, Given(request, {"capture", "record"})));
  }
  Json out = FormMembers(request, parts);
  out["schema"] = "malaiwah.fidelity-capture-manifest.v1";
  out["format_version"] = 1;
  out["created_utc"] = Text(request, "created_utc", "");
  out["run_name"] = Text(request, "run_name", "first");
  out["context_length"] = request.suite.context_length;
  out["scored_rows_per_context"] = parts.records.front().rows;
  out["total_scored_rows"] = TotalRows(parts);
  out["total_size_bytes"] = TotalBytes(parts);
  out["capture_content_digest"] = DatasetContentDigest(records).value_or("");
  out["runtime_manifest"] = "../runtime/capture-runtime.json";
  out["runtime_manifest_sha256"] = parts.runtime_sha256;
  out["coverage"] = Coverage(request, parts);
  out["records"] = std::move(records);
  return Sealed(std::move(out), "receipt_sha256");
}

Json ValidationDocument(const DatasetPackRequest& request) {
  // The gates that need no seal of the whole; the finished dataset is verified with all of them.
  const std::string tokens = "panel.tokens(" + std::to_string(request.suite.contexts.size()) + ")";
  const Json out = {{"schema", "malaiwah.fidelity-structural-validation.v1"},
                    {"format_version", 1},
                    {"subject", "dataset:" + DatasetText(Given(request, {"dataset", "id"}))},
                    {"structural_status", "sealed"},
                    {"checks_run",
                     {"coverage", "determinism", "digest.capture_content", "head",
                      "panel.aggregate", "panel.binding", tokens, "records", "role", "schema",
                      "scope_vocabulary", "seal.submanifests"}},
                    {"errors", Json::array()},
                    {"warnings", Json::array()},
                    {"error_count", 0},
                    {"warning_count", 0}};
  return Sealed(out, "receipt_sha256");
}

Json ManifestDocument(const DatasetPackRequest& request, const PackedDocuments& parts) {
  Json head = parts.head_json;
  for (const char* key : {"schema", "format_version", "receipt_sha256", "note"}) head.erase(key);
  head["head_json"] = "head/head.json";
  const Json& runtime = parts.runtime;
  Json out = {
      {"schema", "malaiwah.fidelity-dataset.v1"},
      {"format_version", 1},
      {"created_utc", Text(request, "created_utc", "")},
      {"dataset", DatasetBlock(request)},
      {"weights", Weights(request)},
      {"scope", Scope(request)},
      {"panel", PanelBlock(request, parts)},
      {"capture", CaptureBlock(request, parts)},
      {"head", std::move(head)},
      {"runtime",
       {{"file", "runtime/capture-runtime.json"},
        {"file_sha256", parts.runtime_sha256},
        {"lane", runtime.at("lane")},
        {"lane_inferred", runtime.at("lane_inferred")},
        {"lane_identity_sha256", runtime.at("lane_identity_sha256")},
        {"backend_identity_sha256", nullptr},
        {"runtime_reader_sha256", nullptr},
        {"stack_fingerprint_sha256", runtime.at("stack_fingerprint_sha256")},
        {"source", DatasetString(Given(request, {"runtime", "source"})).value_or("other")}}},
      {"determinism", Determinism(request, parts)},
      {"seal", Seal(request, parts)},
      {"coverage", Coverage(request, parts)},
      {"interop", Interop(request)},
      {"disclosures", Json::array({{{"code", "reduced_run_count"},
                                    {"severity", "caveat"},
                                    {"affects_comparability", false},
                                    {"detail", "one cold capture"}}})},
      {"upstream_receipts", Json::array()}};
  for (const char* key : {"disclosures", "upstream_receipts"}) {
    if (!Given(request, {key}).is_null()) out[key] = Given(request, {key});
  }
  return Sealed(std::move(out), "dataset_sha256");
}

}  // namespace assay
