#include "storage/dataset/receipt.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/pairwise_sum.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/receipt_text.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr size_t kHighContexts = 5;

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

double CompensatedMean(const std::vector<double>& values) {
  CompensatedSum sum;
  for (const double value : values) sum.Add(value);
  return sum.Result() / static_cast<double>(values.size());
}

double NumpyMean(std::span<const double> values) {
  return PairwiseSum(values) / static_cast<double>(values.size());
}

// Mean over windows of their means, by a label; null when no window has one.
Json MeansBy(const std::vector<DatasetWindow>& windows, std::string DatasetWindow::*label) {
  std::map<std::string, std::vector<double>> means;
  for (const DatasetWindow& window : windows) {
    if (!(window.*label).empty()) means[window.*label].push_back(NumpyMean(window.kl));
  }
  Json out;
  for (const auto& [name, values] : means) out[name] = CompensatedMean(values);
  return out;
}

struct Bucket {
  const char* name;
  size_t begin, end;  // rows
};
constexpr Bucket kBuckets[] = {{"0000-0255", 0, 256},
                               {"0256-0511", 256, 512},
                               {"0512-1023", 512, 1024},
                               {"1024-1535", 1024, 1536},
                               {"1536-2046", 1536, 2047}};

Json MeansByDepth(const std::vector<DatasetWindow>& windows) {
  Json out;
  for (const Bucket& bucket : kBuckets) {
    std::vector<double> means;
    for (const DatasetWindow& window : windows) {
      const size_t end = std::min(bucket.end, window.kl.size());
      if (bucket.begin < end) {
        means.push_back(NumpyMean(std::span(window.kl).subspan(bucket.begin, end - bucket.begin)));
      }
    }
    if (!means.empty()) out[bucket.name] = CompensatedMean(means);
  }
  return out;
}

Json LabelOrNull(const std::string& label) { return label.empty() ? Json(nullptr) : Json(label); }

Json WindowRow(const DatasetWindow& window) {
  return {{"index", window.index},
          {"window_id", window.window_id},
          {"scored_rows", window.kl.size()},
          {"mean", NumpyMean(window.kl)},
          {"max", *std::max_element(window.kl.begin(), window.kl.end())},
          {"domain", LabelOrNull(window.domain)},
          {"allocation_stratum", LabelOrNull(window.stratum)}};
}

Json SideJson(const DatasetDocuments& documents, const std::string& label) {
  const Json& manifest = documents.manifest;
  Json head;
  for (const char* key :
       {"tensor_content_sha256", "raw_tensor_sha256", "quantized", "bits", "source"}) {
    head[key] = At(manifest, {"head", key});
  }
  return {{"label", label},
          {"dataset_id", At(manifest, {"dataset", "id"})},
          {"dataset_sha256", At(manifest, {"dataset_sha256"})},
          {"capture_content_digest", At(manifest, {"capture", "capture_content_digest"})},
          {"role", At(manifest, {"dataset", "role"})},
          {"form", At(manifest, {"capture", "form"})},
          {"lane", At(manifest, {"runtime", "lane"})},
          {"repository", At(manifest, {"dataset", "repository"})},
          {"revision", At(manifest, {"dataset", "revision"})},
          {"head", std::move(head)},
          {"stack_fingerprint_sha256", At(manifest, {"runtime", "stack_fingerprint_sha256"})},
          {"lane_identity_sha256", At(manifest, {"runtime", "lane_identity_sha256"})},
          {"weights", At(manifest, {"weights"})},
          {"scope_digest", At(manifest, {"scope", "scope_digest"})}};
}

class Writer {
 public:
  Writer(const DatasetDocuments& reference, const DatasetDocuments& candidate,
         const DatasetComparison& comparison, const DatasetCompareOptions& options,
         const ComparisonReceiptInfo& info)
      : a_(reference.manifest),
        b_(candidate.manifest),
        reference_(reference),
        candidate_(candidate),
        relation_(comparison.relation),
        windows_(comparison.windows),
        options_(options),
        info_(info) {
    for (const DatasetWindow& window : windows_) {
      values_.insert(values_.end(), window.kl.begin(), window.kl.end());
      matches_ += window.top1_matches;
    }
    npy_ = TokenwiseNpy(windows_);
    mean_ = NumpyMean(values_);
  }

  Json Write();

 private:
  bool Hidden(const Json& manifest) const { return At(manifest, {"capture", "form"}) == "hidden"; }
  bool Replayed() const { return info_.computed && (Hidden(a_) || Hidden(b_)); }
  const char* StackRelation() const { return relation_.same_stack ? "same_stack" : "cross_stack"; }
  const char* HeadPolicy() const {
    return relation_.native_head ? "native_head" : "shared_reference_head";
  }
  Json Positions() const { return static_cast<int64_t>(values_.size()); }
  Json PanelJson() const;
  Json ComparatorJson() const;
  void AddMetric(Json* out) const;
  void AddWindows(Json* out) const;
  Json EstimatorJson() const;
  Json DeterminismJson() const;
  Json ScopeJson() const;
  Json ComparabilityJson() const;
  Json SelfCompareJson() const;

  const Json& a_;
  const Json& b_;
  const DatasetDocuments& reference_;
  const DatasetDocuments& candidate_;
  const DatasetRelation& relation_;
  const std::vector<DatasetWindow>& windows_;
  const DatasetCompareOptions& options_;
  const ComparisonReceiptInfo& info_;
  std::vector<double> values_;
  int64_t matches_ = 0;
  std::string npy_;
  double mean_ = 0;
};

Json Writer::PanelJson() const {
  const Json &tokenizer = At(a_, {"panel", "tokenizer"}), &other = At(b_, {"panel", "tokenizer"});
  return {{"panel_id", At(a_, {"panel", "panel_id"})},
          {"suite_token_hash_sha256", At(a_, {"panel", "suite_token_hash_sha256"})},
          {"panel_token_sha256_legacy", At(a_, {"panel", "panel_token_sha256_legacy"})},
          {"contexts", windows_.size()},
          {"scored_positions", Positions()},
          {"context_length", At(a_, {"panel", "context_length"})},
          {"scoring_window", At(a_, {"panel", "scoring_window"})},
          {"tokenizer", tokenizer},
          {"tokenizer_reference", tokenizer},
          {"tokenizer_candidate", other},
          {"tokenizer_identity_equal", tokenizer == other}};
}

Json Writer::ComparatorJson() const {
  const Json &head_a = At(a_, {"head", "tensor_content_sha256"}),
             &head_b = At(b_, {"head", "tensor_content_sha256"});
  const bool logits = !Hidden(a_) && !Hidden(b_);
  Json applied_a = head_a, applied_b = options_.own_heads ? head_b : head_a, applied = head_a;
  if (logits) applied = applied_a = applied_b = nullptr;
  if (options_.own_heads && !logits) applied = head_a == head_b ? head_a : Json(nullptr);
  const Json chunk = options_.vocab_chunk ? Json(*options_.vocab_chunk) : Json(nullptr);
  Json environment = nullptr;
  if (Replayed()) environment = {{"library", "assay"}, {"replay_dtype", "float32"}};
  return {{"device", info_.computed ? "cpu" : "none"},
          {"accumulation_dtype", "float64"},
          {"logprob_dtype", "float64"},
          {"two_pass", true},
          {"vocab_chunk", info_.computed ? chunk : Json(nullptr)},
          {"position_block", info_.computed ? Json(options_.position_block) : Json(nullptr)},
          {"replay_backend", !info_.computed ? Json("none")
                             : Replayed()    ? Json("assay:cpu:float32")
                                             : Json(nullptr)},
          {"replay_env", std::move(environment)},
          {"replay_peak_device_bytes", nullptr},
          {"tf32", false},
          {"deterministic_algorithms", true},
          {"bf16_reduced_precision_reduction", false},
          {"cublas_workspace_config", nullptr},
          {"head_applied_tensor_content_sha256", applied},
          {"head_applied_reference_tensor_content_sha256", applied_a},
          {"head_applied_candidate_tensor_content_sha256", applied_b},
          {"tensor_content_digests_verified", true},
          {"source_file_hashes_verified", true},
          {"short_circuited", !info_.computed},
          {"estimator_backend", info_.computed ? "assay_fp64" : "hash_proof"},
          {"tool", ReceiptTool()}};
}

void Writer::AddMetric(Json* out) const {
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  (*out)["metric"] = {{"name", "mean_tokenwise_kld"},
                      {"value", mean_},
                      {"units", "nats"},
                      {"direction", "reference_to_candidate"},
                      {"direction_label", "KL(reference || candidate)"},
                      {"higher_is_better", false}};
  (*out)["kl"] = {{"mean", mean_},
                  {"median", LinearQuantile(sorted, 0.5)},
                  {"p95", LinearQuantile(sorted, 0.95)},
                  {"p99", LinearQuantile(sorted, 0.99)},
                  {"p99_9", LinearQuantile(sorted, 0.999)},
                  {"max", sorted.back()}};
  (*out)["top1_agreement"] = static_cast<double>(matches_) / static_cast<double>(values_.size());
}

void Writer::AddWindows(Json* out) const {
  const bool computed = info_.computed;
  const Json strata = computed ? MeansBy(windows_, &DatasetWindow::stratum) : Json(nullptr);
  std::vector<double> means;
  for (const Json& value : strata) means.push_back(value.get<double>());
  (*out)["kl_micro_token_mean"] = mean_;
  (*out)["kl_macro_stratum_mean"] = means.empty() ? Json(nullptr) : Json(CompensatedMean(means));
  (*out)["per_stratum"] = strata;
  (*out)["per_domain"] = computed ? MeansBy(windows_, &DatasetWindow::domain) : Json(nullptr);
  (*out)["context_depth_buckets"] = computed ? MeansByDepth(windows_) : Json(nullptr);
  std::vector<Json> rows;
  for (const DatasetWindow& window : windows_) rows.push_back(WindowRow(window));
  (*out)["per_context"] = rows;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json& a, const Json& b) { return a.at("mean") > b.at("mean"); });
  if (rows.size() > kHighContexts) rows.resize(kHighContexts);
  (*out)["high_kld_contexts"] = rows;
  (*out)["top1_discordant_contexts"] = Json::array();
  (*out)["tokenwise"] = {
      {"path", "tokenwise-kld.npy"}, {"bytes", npy_.size()}, {"sha256", Sha256Hex(npy_)}};
}

Json Writer::EstimatorJson() const {
  const auto dtype = [](const Json& manifest) {
    return Lower(DatasetText(At(manifest, {"capture", "dtype"})));
  };
  Json hidden = nullptr;
  for (const Json* manifest : {&a_, &b_}) {
    if (hidden.is_null() && Hidden(*manifest)) hidden = dtype(*manifest);
  }
  const bool zero = relation_.kind == "reproduction_confirmation";
  return {{"accumulation_dtype", "float64"},
          {"logits_dtype", Replayed() ? std::string("float32") : dtype(a_)},
          {"hidden_dtype", std::move(hidden)},
          {"two_pass", true},
          {"vocab_chunk",
           info_.computed && options_.vocab_chunk ? Json(*options_.vocab_chunk) : Json(nullptr)},
          {"stack_relation", StackRelation()},
          {"head_policy", HeadPolicy()},
          {"softmax_note", ReceiptSoftmaxNote()},
          {"zero_handling", zero ? Json(ReceiptZeroNote()) : Json(nullptr)}};
}

Json Writer::DeterminismJson() const {
  std::set<std::string> hashes;
  for (const Json* manifest : {&a_, &b_}) {
    hashes.insert(DatasetText(At(*manifest, {"capture", "capture_content_digest"})));
  }
  return {{"run_count", 1},
          {"cold_start_per_run", nullptr},
          {"run_means", Json::array({mean_})},
          {"population_stddev_of_run_means", 0.0},
          {"min_run_mean", mean_},
          {"max_run_mean", mean_},
          {"identical_across_runs", nullptr},
          {"evidence_kind",
           Hidden(a_) || Hidden(b_) ? "hidden_state_tensor_sha256" : "logits_tensor_sha256"},
          {"evidence_hashes", hashes},
          {"distinct_evidence_hash_count", hashes.size()},
          {"note", ReceiptDeterminismNote()}};
}

Json Writer::ScopeJson() const {
  return {
      {"scored_positions", Positions()},
      {"contexts", windows_.size()},
      {"positions_per_context", windows_.empty() ? Json(nullptr) : Json(windows_[0].kl.size())},
      {"covers_full_panel", relation_.covers_full_panel},
      {"subset_detail",
       relation_.covers_full_panel ? Json(nullptr) : Json(ReceiptSubsetDetail(windows_.size()))},
      {"position_filter", "all"}};
}

Json Writer::ComparabilityJson() const {
  const bool same_lane = At(a_, {"runtime", "lane"}) == At(b_, {"runtime", "lane"});
  Json bias = nullptr;
  const auto biased = [&](const char* kind) {
    bias = {{"kind", kind},
            {"direction", "unknown"},
            {"estimated_magnitude", nullptr},
            {"floor_measurement_ref", nullptr},
            {"detail", ReceiptBiasDetail(kind)}};
  };
  const auto& codes = relation_.disclosures;
  if (std::find(codes.begin(), codes.end(), "head_substituted") != codes.end()) biased("other");
  if (!relation_.same_stack) biased("cross_stack_capture_replay");
  Json out = {{"class", relation_.strict ? "strict" : "advisory"},
              {"usable_as_floor", relation_.usable_as_floor && same_lane},
              {"same_lane", same_lane},
              {"key", nullptr},
              {"key_inputs", nullptr},
              {"bias", std::move(bias)}};
  if (relation_.kind != "measurement") return out;
  const Json& panel = At(a_, {"panel", "panel_id"});
  Json inputs = {{"panel_id", panel.is_null() ? Json("panel--unknown") : panel},
                 {"reference_id", At(a_, {"dataset", "id"})},
                 {"metric_name", "mean_tokenwise_kld"},
                 {"direction", "reference_to_candidate"},
                 {"accumulation_dtype", "float64"},
                 {"stack_relation", StackRelation()},
                 {"head_policy", HeadPolicy()}};
  out["key"] = ComparabilityKey(inputs);
  inputs["note"] = ReceiptKeyNote();
  out["key_inputs"] = std::move(inputs);
  return out;
}

Json Writer::SelfCompareJson() const {
  if (relation_.kind == "measurement") return nullptr;
  const bool reproduction = relation_.kind == "reproduction_confirmation";
  const auto equal = [&](std::initializer_list<const char*> path) {
    return At(a_, path) == At(b_, path);
  };
  return {{"capture_content_digest_equal", equal({"capture", "capture_content_digest"})},
          {"weights_identity_equal", equal({"weights", "checkpoint_identity_sha256"}) &&
                                         equal({"weights", "model_revision"}) &&
                                         equal({"scope", "scope_digest"})},
          {"head_digest_equal", equal({"head", "tensor_content_sha256"})},
          {"asserted_exact_zero", reproduction},
          {"force_compute_agreed", reproduction && info_.computed ? Json(true) : Json(nullptr)},
          {"expected_tokenwise_bytes", npy_.size()},
          {"expected_tokenwise_sha256", Sha256Hex(npy_)}};
}

Json Writer::Write() {
  Json out;
  out["schema"] = "malaiwah.fidelity-comparison-receipt.v1";
  out["format_version"] = 1;
  out["created_utc"] = info_.created_utc;
  out["comparison_kind"] = relation_.kind;
  out["reference"] = SideJson(reference_, info_.reference_label);
  out["candidate"] = SideJson(candidate_, info_.candidate_label);
  out["panel"] = PanelJson();
  out["gates"] = ReceiptGates(a_, b_, relation_, options_);
  out["comparator"] = ComparatorJson();
  AddMetric(&out);
  AddWindows(&out);
  out["uncertainty"] = {{"method", "none"},    {"ci95_low", nullptr}, {"ci95_high", nullptr},
                        {"clusters", nullptr}, {"samples", nullptr},  {"cluster_unit", nullptr},
                        {"seed", nullptr}};
  out["estimator"] = EstimatorJson();
  out["determinism"] = DeterminismJson();
  out["measurement_scope"] = ScopeJson();
  out["comparability"] = ComparabilityJson();
  out["self_compare"] = SelfCompareJson();
  out["submission"] = {{"emitted", false},
                       {"path", nullptr},
                       {"receipt_sha256", nullptr},
                       {"submission_schema", nullptr},
                       {"refusal", relation_.kind == "measurement"
                                       ? Json(nullptr)
                                       : Json(ReceiptSubmissionRefusal(relation_.kind))}};
  out["disclosures"] = ReceiptDisclosures(relation_.disclosures);
  out["receipt_sha256"] = DatasetSeal(out, "receipt_sha256");
  return out;
}

}  // namespace

std::string ComparabilityKey(const Json& key_inputs) {
  std::string text;
  for (const char* key : {"panel_id", "reference_id", "metric_name", "direction",
                          "accumulation_dtype", "stack_relation", "head_policy"}) {
    text += (text.empty() ? "" : "|") + DatasetText(At(key_inputs, {key}));
  }
  return "cmp--" + Sha256Hex(text).substr(0, 16);
}

Json ComparisonReceipt(const DatasetDocuments& reference, const DatasetDocuments& candidate,
                       const DatasetComparison& comparison, const DatasetCompareOptions& options,
                       const ComparisonReceiptInfo& info) {
  return Writer(reference, candidate, comparison, options, info).Write();
}

}  // namespace assay
