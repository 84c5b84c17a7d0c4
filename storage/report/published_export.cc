#include "storage/report/published_export.h"

#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_report.h"
#include "storage/report/report.h"
#include "storage/report/tail.h"

namespace assay {
namespace {

absl::Status Lossy(const std::string& why) {
  return PreconditionError("EXPORT_LOSSY", "the published form cannot say " + why);
}

absl::Status CheckExpressible(const Json& report, const Json& result, int generation) {
  const Json& coverage = report.at("coverage");
  const int64_t from = coverage.value("score_from", int64_t{0});
  if ((from > 0) != (generation == 3)) {
    return Lossy(from > 0 ? "in /1 or /2 that positions were left out: ask for "
                            "qwen38-fidelity-report/3"
                          : "in /3 that every position was scored: ask for "
                            "qwen38-fidelity-report/2");
  }
  if (coverage.contains("limit")) {
    return Lossy("that only some contexts of the filter were scored (--limit)");
  }
  const Json& mean = result.at("statistics").at("kl_ref_cand").at("mean");
  if (mean.at("value").is_null()) return Lossy("that a divergence is infinite");
  const Json& numeric = report.at("numeric");
  if (!numeric.at("valid_vocab").is_null() || !numeric.at("softcap").is_null()) {
    return Lossy("that logits are capped or columns of the vocabulary are left out");
  }
  for (const char* side : {"reference_head", "candidate_head"}) {
    if (!result.at(side).contains("bias_sha256") && !result.at(side).contains("logit_scale"))
      continue;
    return Lossy("that a head has a bias or a scale");
  }
  return absl::OkStatus();
}

// The members of the published identity (2.3), from what the report knows of the operand.
Json IdentityJson(const Json& operand, const std::string& model_path) {
  Json out = {{"model_path", model_path},
              {"model_revision", nullptr},
              {"model_revision_source", "none"},
              {"index_sha256", nullptr},
              {"config_sha256", nullptr},
              {"shard_sha256", nullptr},
              {"quantization", nullptr},
              {"quantization_config", nullptr},
              {"trust_remote_code", false},
              {"kv_cache_dtype_requested", nullptr},
              {"kv_cache_dtype_resolved", "unresolved"},
              {"kv_cache_dtype_resolved_source", "unavailable"}};
  const Json& model = operand.at("model");
  if (model.is_object()) {
    for (const Json& file : model.at("files")) {
      const std::string path = file.at("path").get<std::string>();
      if (path == "config.json") out["config_sha256"] = file.at("sha256");
      if (path == "model.safetensors.index.json") out["index_sha256"] = file.at("sha256");
      if (path.ends_with(".safetensors") || path.ends_with(".gguf")) {
        out["shard_sha256"][path] = file.at("sha256");
      }
    }
    const Json transform = model.value("transform", Json());
    if (transform.is_string() && !transform.get<std::string>().empty()) {
      out["quantization"] = transform;
    }
  }
  const Json& declared = operand.at("declared_identity");
  if (declared.is_object()) {
    for (const auto& [key, value] : declared.items()) {
      if (key != "model_path") out[key] = value;
    }
  }
  return out;
}

Json WindowJson(int64_t from) {
  return {{"schema", "qwen38-scored-position-window/1"},
          {"score_from", from},
          {"windowed", from > 0},
          {"policy", from > 0 ? "the first score_from positions of every context are not scored"
                              : "every position of every context is scored"},
          {"positions_per_context", nullptr},
          {"positions_per_context_min", nullptr},
          {"positions_per_context_max", nullptr},
          {"capture_positions_per_context", nullptr},
          {"dropped_positions_per_context", nullptr},
          {"dropped_positions_total", nullptr},
          {"first_scored_position_index", nullptr},
          {"min_left_context_tokens", nullptr}};
}

Json HistogramJson(const Json& kl) {
  const Json& counts = kl.at("tail").at("counts");
  return {{"schema", "qwen38-kld-tail-histogram/1"},
          {"units", "nats"},
          {"binning",
           {{"log10_low", -12.0},
            {"log10_high", 2.0},
            {"bins_per_decade", 40},
            {"bins", kTailEdges - 1},
            {"edge_formula", "10 to the power of log10_low + i / bins_per_decade"},
            {"bucket_rule", "the number of edges that are not above the value"},
            {"underflow", "values below the first edge"},
            {"overflow", "values from the last edge on"}}},
          {"bin_edges", TailEdges()},
          {"counts", counts},
          {"total_count", 0},
          {"underflow_count", 0},
          {"overflow_count", 0},
          {"max_kld", kl.at("max")},
          {"min_kld", kl.at("min")},
          {"shard_exact_quantiles",
           {{"p50", kl.at("p50")},
            {"p95", kl.at("p95")},
            {"p99", kl.at("p99")},
            {"p999", kl.at("p999")}}}};
}

Json ComparatorJson(const Json& numeric) {
  const std::string backend = numeric.at("backend").get<std::string>();
  const bool published = numeric.at("policy") == "torch-bf16" && numeric.contains("vocab_chunk");
  Json out = {{"vocab_chunk", numeric.value("vocab_chunk", Json())},
              {"device", backend.substr(0, backend.find('-'))},
              {"accumulation", "float64"},
              {"two_pass", true}};
  if (published) return out;
  out["policy"] = "assay:" + numeric.at("policy").get<std::string>();
  out["backend"] = backend;
  return out;
}

// Rows of per_context_all joined with per_context.
Json RowJson(const Json& row, bool detailed) {
  Json out = {{"index", row.at("index")}};
  const auto value = [&](const char* mean) { return row.at(mean).at("value"); };
  if (detailed) {
    out["stratum"] = row.at("stratum");
    out["source_cluster"] = row.at("source_cluster");
  } else {
    out["source_cluster"] = row.at("source_cluster");
    out["stratum"] = row.at("stratum");
    out["positions_scored"] = row.at("positions");
  }
  out["mean_kld"] = value("mean_kl_ref_cand");
  out["median_kld"] = row.at("median_kl_ref_cand");
  if (detailed) {
    out["max_kld"] = row.at("max_kl_ref_cand");
    out["mean_jsd_bits"] = value("mean_jsd_bits");
  }
  out["top1_agreement"] = row.at("same_top1").at("fraction");
  return out;
}

// RFC 8785 writes integral doubles without a point and a reader takes them for integers; the
// published form keeps the two apart.
void MakeDoubles(Json* value) {
  if (value->is_number_integer()) *value = value->get<double>();
  if (!value->is_structured()) return;
  for (auto& [key, member] : value->items()) {
    if (key != "index" && key != "positions_scored") MakeDoubles(&member);
  }
}

absl::Status CheckNamed(const PublishedExportInfo& info, bool other_head) {
  const std::pair<const char*, const std::string*> needed[] = {
      {"the reference's name", &info.reference},
      {"the candidate's name", &info.candidate},
      {"the reference head's file (--reference-head)", &info.head_sha256}};
  for (const auto& [what, value] : needed) {
    if (!value->empty()) continue;
    return PreconditionError("EXPORT_INCOMPLETE",
                             std::string("the published form states ") + what + "; give it");
  }
  if (other_head && info.candidate_head_sha256.empty()) {
    return PreconditionError("EXPORT_INCOMPLETE",
                             "the candidate has another head, and the published form states its "
                             "file; give it with --candidate-head");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> ExportPublishedReport(const Json& report, std::string_view head,
                                           const PublishedExportInfo& info) {
  const std::string mode(head);
  if (!report.at("heads").contains(mode)) {
    return NotFoundError("HEAD_NOT_SCORED", "the report has no result of head mode " + mode);
  }
  const Json& result = report.at("heads").at(mode);
  ASSAY_RETURN_IF_ERROR(CheckExpressible(report, result, info.generation));
  const bool other_head = result.at("reference_head").at("rounded_sha256") !=
                          result.at("candidate_head").at("rounded_sha256");
  ASSAY_RETURN_IF_ERROR(CheckNamed(info, other_head));
  const Json& kl = result.at("statistics").at("kl_ref_cand");
  const int64_t from = report.at("coverage").value("score_from", int64_t{0});
  Json out;
  out["schema"] = "qwen38-fidelity-report/" + std::to_string(info.generation);
  out["reference"] = info.reference;
  out["candidate"] = info.candidate;
  out["reference_identity"] = IdentityJson(report.at("reference"), info.reference_model);
  out["candidate_identity"] = IdentityJson(report.at("candidate"), info.candidate_model);
  out["head"] = info.head;
  out["head_sha256"] = info.head_sha256;
  out["candidate_head"] = other_head ? Json(info.candidate_head) : Json(nullptr);
  out["candidate_head_sha256"] = other_head ? Json(info.candidate_head_sha256) : Json(nullptr);
  out["suite_token_sha256"] = report.at("suite").at("suite_token_sha256");
  out["filter"] = report.at("coverage").at("filter");
  if (info.generation > 1) out["scored_position_window"] = WindowJson(from);
  // Counts, sums and lists are filled in from the rows below.
  out["contexts"] = 0;
  out["scored_positions"] = 0;
  out["vocab_size"] = result.at("reference_head").at("vocab");
  out["hidden_size"] = result.at("reference_head").at("hidden");
  out["token_mean_kld"] = kl.at("mean").at("value");
  out["token_median_kld"] = kl.at("p50");
  for (const char* q : {"p95", "p99", "p999"}) out[std::string(q) + "_kld"] = kl.at(q);
  out["max_kld"] = kl.at("max");
  if (info.generation > 1) out["kld_tail"] = HistogramJson(kl);
  out["context_macro_mean_kld"] = 0.0;
  out["context_bootstrap"] = {{"samples", 10000}};
  out["mean_jsd_bits"] = 0.0;
  out["top1_agreement"] = 0.0;
  out["strata"] = Json::object();
  out["worst_contexts"] = Json::array();
  out["per_context_all"] = Json::array();
  out["per_context"] = Json::array();
  for (const Json& row : result.at("contexts")) {
    out["per_context_all"].push_back(RowJson(row, false));
    out["per_context"].push_back(RowJson(row, true));
  }
  out["comparator"] = ComparatorJson(report.at("numeric"));
  for (const char* key : {"per_context_all", "per_context", "token_mean_kld", "token_median_kld",
                          "p95_kld", "p99_kld", "p999_kld", "max_kld"}) {
    MakeDoubles(&out[key]);
  }
  if (info.generation > 1) {
    for (const char* key : {"max_kld", "min_kld", "shard_exact_quantiles"}) {
      MakeDoubles(&out["kld_tail"][key]);
    }
  }
  return RecomputePublishedReport(out, "the exported report");
}

absl::StatusOr<std::string> ReexportPublishedReport(std::string_view bytes, std::string_view where,
                                                    int generation) {
  const std::string name(where);
  ASSAY_ASSIGN_OR_RETURN(const Json document, ParseJson(bytes, name));
  const PublishedSchema schema = PublishedSchemaOf(document);
  if (schema.Is("fidelity-report") && schema.generation != generation) {
    return PreconditionError("EXPORT_LOSSY", name + ": is of generation " +
                                                 std::to_string(schema.generation) +
                                                 "; another one says more or less than it does");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json again, RecomputePublishedReport(document, name));
  std::string written = PythonPrettyJson(again);
  if (written == bytes) return written;
  return PreconditionError("EXPORT_LOSSY", name +
                                               ": it would not be the same bytes; report verify "
                                               "says which figure or layout differs");
}

}  // namespace assay
