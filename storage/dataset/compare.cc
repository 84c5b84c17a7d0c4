#include "storage/dataset/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "storage/base/digest.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr int64_t kWindowRowsMax = 1 << 24;

std::vector<double> Tokenwise(const std::vector<DatasetWindow>& windows) {
  std::vector<double> out;
  for (const DatasetWindow& window : windows)
    out.insert(out.end(), window.kl.begin(), window.kl.end());
  return out;
}

double SumOver(const std::vector<double>& values) {
  CompensatedSum sum;
  for (const double value : values) sum.Add(value);
  return sum.Result();
}

double MeanOf(const std::vector<double>& values) {
  return SumOver(values) / static_cast<double>(values.size());
}

// Mean over windows of their means, by a label; null when no window has one.
Json Macro(const std::vector<DatasetWindow>& windows, std::string DatasetWindow::*label) {
  std::map<std::string, std::vector<double>> means;
  for (const DatasetWindow& window : windows) {
    if (!(window.*label).empty()) means[window.*label].push_back(ExactMean(window.kl));
  }
  Json out;
  for (const auto& [name, values] : means) out[name] = MeanOf(values);
  return out;
}

Json DepthBuckets(const std::vector<DatasetWindow>& windows) {
  struct Bucket {
    const char* name;
    size_t begin, end;
  };
  Json out;
  for (const Bucket& bucket : {Bucket{"0000-0255", 0, 256},
                               {"0256-0511", 256, 512},
                               {"0512-1023", 512, 1024},
                               {"1024-1535", 1024, 1536},
                               {"1536-2046", 1536, 2047}}) {
    std::vector<double> means;
    for (const DatasetWindow& window : windows) {
      const size_t end = std::min(bucket.end, window.kl.size());
      if (bucket.begin < end)
        means.push_back(ExactMean(std::span(window.kl).subspan(bucket.begin, end - bucket.begin)));
    }
    if (!means.empty()) out[bucket.name] = MeanOf(means);
  }
  return out;
}

Json Identity(const DatasetDocuments& documents) {
  const Json& manifest = documents.manifest;
  return {
      {"dataset_sha256", DatasetMember(manifest, {"dataset_sha256"})},
      {"dataset_id", DatasetMember(manifest, {"dataset", "id"})},
      {"role", DatasetMember(manifest, {"dataset", "role"})},
      {"form", DatasetMember(manifest, {"capture", "form"})},
      {"capture_content_digest", DatasetMember(manifest, {"capture", "capture_content_digest"})},
      {"head_tensor_content_sha256", DatasetMember(manifest, {"head", "tensor_content_sha256"})},
      {"scope_digest", DatasetMember(manifest, {"scope", "scope_digest"})}};
}

Json Summarize(const DatasetVerdict& reference, const DatasetVerdict& candidate,
               const DatasetComparison& result, bool computed) {
  const DatasetRelation& relation = result.relation;
  std::vector<double> values = Tokenwise(result.windows);
  int64_t matches = 0;
  Json windows = Json::array();
  for (const DatasetWindow& window : result.windows) {
    matches += window.top1_matches;
    windows.push_back({{"index", window.index},
                       {"window_id", window.window_id},
                       {"scored_rows", window.kl.size()},
                       {"mean", ExactMean(window.kl)},
                       {"max", *std::max_element(window.kl.begin(), window.kl.end())}});
  }
  const double mean = ExactMean(values);
  const std::string npy = TokenwiseNpy(result.windows);
  std::sort(values.begin(), values.end());
  Json out = {{"schema", "assay-dataset-comparison/1"}, {"comparison_kind", relation.kind}};
  out["reference"] = Identity(reference.documents);
  out["candidate"] = Identity(candidate.documents);
  out["class"] = relation.strict ? "strict" : "advisory";
  out["usable_as_floor"] = relation.usable_as_floor;
  out["stack_relation"] = relation.same_stack ? "same_stack" : "cross_stack";
  out["head_policy"] = relation.native_head ? "native_head" : "shared_reference_head";
  out["covers_full_panel"] = relation.covers_full_panel;
  out["disclosures"] = relation.disclosures;
  out["numeric_policy"] = "numpy-fp32";
  out["computed"] = computed;  // false: equal content digests prove that every value is 0
  out["kl"] = {{"mean", mean},
               {"median", LinearQuantile(values, 0.5)},
               {"p95", LinearQuantile(values, 0.95)},
               {"p99", LinearQuantile(values, 0.99)},
               {"p99_9", LinearQuantile(values, 0.999)},
               {"max", values.back()}};
  out["top1_agreement"] = static_cast<double>(matches) / static_cast<double>(values.size());
  out["scored_positions"] = values.size();
  const Json strata = computed ? Macro(result.windows, &DatasetWindow::stratum) : Json();
  std::vector<double> stratum_means;
  for (const Json& value : strata) stratum_means.push_back(value.get<double>());
  out["kl_macro_stratum_mean"] = stratum_means.empty() ? Json() : Json(MeanOf(stratum_means));
  out["per_stratum"] = strata;
  out["per_domain"] = computed ? Macro(result.windows, &DatasetWindow::domain) : Json();
  out["context_depth_buckets"] = computed ? DepthBuckets(result.windows) : Json();
  out["per_context"] = std::move(windows);
  out["tokenwise"] = {{"bytes", npy.size()}, {"sha256", Sha256Hex(npy)}};
  return out;
}

// Zeros for every scored row: what equal tensors and heads prove without computing.
std::vector<DatasetWindow> HashProof(const DatasetDocuments& documents) {
  std::vector<DatasetWindow> out;
  for (const Json& record : DatasetMember(documents.capture, {"records"})) {
    DatasetWindow window;
    window.index = DatasetInt(DatasetMember(record, {"index"})).value_or(0);
    window.window_id = DatasetText(DatasetMember(record, {"window_id"}));
    window.domain = DatasetString(DatasetMember(record, {"domain"})).value_or("");
    window.stratum = DatasetString(DatasetMember(record, {"allocation_stratum"})).value_or("");
    const int64_t rows = DatasetInt(DatasetMember(record, {"scored_rows"})).value_or(0);
    if (rows > kWindowRowsMax) return {};  // no window has so many; refused as nothing to score
    window.kl.assign(static_cast<size_t>(std::max<int64_t>(rows, 0)), 0.0);
    window.top1_matches = rows;
    out.push_back(std::move(window));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return out;
}

bool AllZero(const std::vector<DatasetWindow>& windows) {
  for (const DatasetWindow& window : windows) {
    if (window.top1_matches != static_cast<int64_t>(window.kl.size())) return false;
    for (const double value : window.kl) {
      if (value != 0 || std::signbit(value)) return false;
    }
  }
  return true;
}

}  // namespace

std::string TokenwiseNpy(const std::vector<DatasetWindow>& windows) {
  const std::vector<double> values = Tokenwise(windows);
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" +
                       std::to_string(values.size()) + ",), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  return out;
}

DatasetComparison CompareDatasets(const std::string& reference, const std::string& candidate,
                                  const DatasetCompareOptions& options) {
  DatasetOptions verify;
  verify.allow_partial = options.allow_partial;
  const DatasetVerdict a = VerifyDataset(reference, verify), b = VerifyDataset(candidate, verify);
  DatasetComparison out;
  out.relation = RelateDatasets(a, b, options);
  if (out.relation.refusal) return out;
  const bool proven = out.relation.kind == "reproduction_confirmation";
  const bool computed = !proven || options.force_compute;
  if (computed) {
    DatasetEstimate estimate = EstimateDatasets(a.documents, b.documents, out.relation, options);
    out.relation.refusal = estimate.refusal;
    if (!estimate.refusal && proven && !AllZero(estimate.windows)) {
      out.relation.refusal = {
          "compute", "self_compare_disagreement",
          "equal tensors gave values that are not 0; this machine computes wrongly"};
    }
    if (out.relation.refusal) return out;
    out.windows = std::move(estimate.windows);
  } else {
    out.windows = HashProof(a.documents);
  }
  size_t positions = 0;
  for (const DatasetWindow& window : out.windows) positions += window.kl.size();
  if (positions == 0) {
    out.relation.refusal = {"coverage", "empty_intersection", "no position is scored"};
    return out;
  }
  std::erase_if(out.windows, [](const DatasetWindow& window) { return window.kl.empty(); });
  out.computed = computed;
  out.summary = Summarize(a, b, out, computed);
  out.reference = a.documents;
  out.candidate = b.documents;
  return out;
}

}  // namespace assay
