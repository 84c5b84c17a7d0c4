// The Qwen3.8 suites' documents (specs: qwen-suites 1 to 4).

#include <cmath>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/format/capture.h"
#include "storage/format/suite.h"
#include "storage/published/examine.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_report.h"
#include "storage/report/published_rows.h"
#include "storage/report/published_tail.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

// content_sha256 leaves out itself, the time of writing, what content_sha256_excludes names, and
// that list.
void CheckContentDigest(const Json& document, PublishedExamination* out) {
  std::vector<std::string> excluded = {"content_sha256", "generated_utc",
                                       "content_sha256_excludes"};
  for (const Json& key : At(document, {"content_sha256_excludes"})) {
    if (key.is_string()) excluded.push_back(key.get<std::string>());
  }
  AddEqual(out, "content_sha256", At(document, {"content_sha256"}),
           PublishedContentSha256(document, excluded));
}

std::optional<double> Number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

bool Near(const Json& stated, std::optional<double> computed) {
  const auto value = Number(stated);
  return value && computed && std::fabs(*value - *computed) <= 1e-15 + 1e-12 * std::fabs(*computed);
}

// Wins and ties of a comparison cover its contexts; older forms count ties among b's.
void CheckWins(const Json& comparison, const std::string& gate, PublishedExamination* out) {
  int64_t sum = 0;
  for (const char* key : {"a_wins", "b_wins", "ties"})
    sum += DatasetInt(At(comparison, {key})).value_or(0);
  AddEqual(out, gate, At(comparison, {"contexts"}), sum);
}

void CheckTail(const Json& tail, PublishedExamination* out) {
  if (tail.is_null()) {
    return AddNotApplicable(out, "tail", "reports of the first generation have no histograms");
  }
  SummedTail sum;
  const Json& edges = At(tail, {"bin_edges"});
  const Json& counts = At(tail, {"counts"});
  const Json& max = At(tail, {"max_kld_exact"});
  bool sound = edges.is_array() && counts.is_array() && !edges.empty() &&
               counts.size() == edges.size() + 1 && max.is_number();
  int64_t total = 0;
  for (size_t i = 0; sound && i < counts.size(); ++i) {
    const auto count = DatasetInt(counts[i]);
    sound = count && *count >= 0 && !__builtin_add_overflow(total, *count, &total);
    if (sound) sum.counts.push_back(*count);
  }
  for (size_t i = 0; sound && i < edges.size(); ++i) {
    sound = edges[i].is_number() && (i == 0 || sum.edges.back() < edges[i].get<double>());
    if (sound) sum.edges.push_back(edges[i].get<double>());
  }
  if (!sound || total == 0 || sum.edges.back() < 1) {
    return AddCheck(out, "tail", false,
                    "its histogram is no histogram: edges ascend to 1 or more, counts are from 0");
  }
  sum.max = max.get<double>();
  const Json computed = CumulativeTailJson(sum, "", "");
  for (const char* key :
       {"total_count", "underflow_count", "overflow_count", "quantiles", "exceedance"}) {
    AddEqual(out, std::string("tail.") + key, At(tail, {key}), computed.at(key));
  }
}

}  // namespace

void ExamineSuite(std::string_view bytes, const std::string& where, PublishedExamination* out) {
  const auto suite = ParseSuiteManifest(bytes, where);
  AddCheck(out, "rows", suite.ok(),
           suite.ok() ? "counts, indices, files, shard and suite_token_sha256 follow from the rows"
                      : MessageOf(suite.status()));
  if (suite.ok()) {
    AddEqual(out, "layout", std::string(bytes) == PythonPrettyJson(suite->manifest), true);
  }
  AddNotChecked(out, "tokens", "their files are beside the manifest: assay suite verify DIR");
  AddNotChecked(out, "source texts",
                "windows, contamination scans and cluster draws need the texts");
}

void ExamineCapture(const Json& document, const std::string& where, PublishedExamination* out) {
  const auto manifest = ParseCaptureManifest(document, where);
  AddCheck(out, "records", manifest.ok(),
           manifest.ok() ? "counts, indices, shapes and digests are stated once and agree"
                         : MessageOf(manifest.status()));
  if (manifest.ok() && manifest->legacy) {
    AddCheck(
        out, "rule legacy-capture", true,
        "neither schema nor complete is stated: accepted because every record has a digest and "
        "their number is `contexts`; results made from it disclose LEGACY_CAPTURE");
    AddNotApplicable(out, "complete", "the first generation does not state it");
  } else if (manifest.ok()) {
    AddCheck(out, "complete", manifest->complete,
             "the manifest was written when all were captured");
  }
  const Json& contract = At(document, {"capture_contract"});
  if (contract.is_object()) {
    AddEqual(out, "capture_contract_sha256", At(document, {"capture_contract_sha256"}),
             Sha256Hex(PythonCanonJson(contract)));
  }
  AddNotChecked(out, "tensors", "their files are beside the manifest: assay capture verify DIR");
}

void ExamineReport(std::string_view bytes, const Json& document, const std::string& where,
                   PublishedExamination* out) {
  if (!document.contains("per_context") && !document.contains("per_context_all")) {
    const Json& mean = At(document, {"context_macro_mean_kld"});
    AddCheck(out, "interval's mean",
             mean.is_number() && mean == At(document, {"context_bootstrap", "mean"}),
             "context_bootstrap.mean repeats the mean over contexts");
    return AddNotChecked(out, "rows",
                         "they were cut out before the report was published: no figure "
                         "can be computed again, and it cannot be paired");
  }
  const auto computed = RecomputePublishedReport(document, where);
  if (!computed.ok()) {
    AddCheck(out, "rows", false, MessageOf(computed.status()));
  } else {
    const bool equal = PythonPrettyJson(*computed) == bytes;
    std::string differs;
    for (const auto& [key, value] : computed->items()) {
      if (!document.contains(key) || document.at(key) != value)
        differs += (differs.empty() ? "" : ", ") + key;
    }
    AddCheck(out, "rows", equal,
             equal ? "every figure that follows from the rows, byte for byte"
                   : "differs in " + (differs.empty() ? "layout" : differs));
  }
  AddNotChecked(out, "rows' own numbers", "need the captures: assay replay --policy torch-bf16");
  AddNotChecked(out, "histogram counts and quantiles", "need the value at every position");
  AddNotChecked(out, "identities", "name models, heads and captures that are not in the document");
}

void ExaminePaired(const Json& document, PublishedExamination* out) {
  const auto a = Number(At(document, {"a", "mean"})), b = Number(At(document, {"b", "mean"}));
  const Json& difference = At(document, {"difference_a_minus_b"});
  AddCheck(out, "difference", a && b && Near(difference, *a - *b),
           "difference_a_minus_b is the difference of the two means");
  AddCheck(out, "interval's mean", difference == At(document, {"bootstrap_difference", "mean"}),
           "bootstrap_difference.mean repeats it");
  CheckWins(document, "wins", out);
  AddNotChecked(out, "interval and median", "need the two reports");
}

void ExamineCumulative(const Json& document, const std::string& where, PublishedExamination* out) {
  CheckContentDigest(document, out);
  const auto rows = ReadPublishedRows(document, where);
  if (!rows.ok() || rows->empty()) {
    return AddCheck(out, "rows", false, rows.ok() ? "there are none" : MessageOf(rows.status()));
  }
  std::set<std::string_view> clusters;
  for (const PublishedRow& row : *rows) clusters.insert(row.source_cluster);
  const std::vector<double> means = PublishedMeans(*rows);
  AddEqual(out, "contexts", At(document, {"contexts"}), rows->size());
  AddEqual(out, "scored_positions", At(document, {"scored_positions"}), PublishedPositions(*rows));
  AddEqual(out, "source_clusters", At(document, {"source_clusters"}), clusters.size());
  AddEqual(out, "token_mean_kld", At(document, {"token_mean_kld"}),
           WeightedByPositions(*rows, &PublishedRow::mean_kld));
  AddEqual(out, "context_macro_mean_kld", At(document, {"context_macro_mean_kld"}),
           ExactMean(means));
  AddEqual(out, "top1_agreement", At(document, {"top1_agreement"}),
           WeightedByPositions(*rows, &PublishedRow::top1_agreement));
  const auto samples = DatasetInt(At(document, {"bootstrap_config", "samples"}));
  const auto seed = DatasetInt(At(document, {"bootstrap_config", "seed"}));
  if (samples && seed && *samples > 0 && *samples <= 1'000'000 && *seed >= 0) {
    AddEqual(out, "context_bootstrap", At(document, {"context_bootstrap"}),
             PublishedBootstrapJson(*rows, means, static_cast<uint32_t>(*samples),
                                    static_cast<uint64_t>(*seed), BootstrapSum::kExactByCluster));
  } else {
    AddCheck(out, "context_bootstrap", false,
             "bootstrap_config states no samples (1 to 1,000,000) and seed");
  }
  AddEqual(out, "strata", At(document, {"strata"}), PublishedStrataJson(*rows));
  const Json& worst = At(document, {"worst_contexts"});
  AddEqual(out, "worst_contexts", worst,
           PublishedWorstJson(*rows, worst.is_array() ? worst.size() : 0));
  CheckTail(At(document, {"tail"}), out);
  AddNotChecked(out, "histogram counts, max_kld, mean_jsd_bits", "need the shard reports");
  AddNotChecked(out, "inputs", "the shard reports are named by digest");
}

void ExamineLadderPaired(const Json& document, PublishedExamination* out) {
  CheckContentDigest(document, out);
  const Json& comparisons = At(document, {"comparisons"});
  if (!comparisons.is_object() || comparisons.empty())
    return AddCheck(out, "comparisons", false, "there are none");
  for (const auto& [name, comparison] : comparisons.items()) {
    CheckWins(comparison, name + ": wins", out);
    const auto low = Number(At(comparison, {"ci95_low"})),
               high = Number(At(comparison, {"ci95_high"}));
    const auto middle = Number(At(comparison, {"difference_a_minus_b"}));
    AddCheck(out, name + ": interval", low && high && middle && *low <= *middle && *middle <= *high,
             "the difference lies inside its interval");
    const Json& inputs = At(document, {"inputs"});
    const bool known = inputs.is_object() && inputs.contains(DatasetText(At(comparison, {"a"}))) &&
                       inputs.contains(DatasetText(At(comparison, {"b"})));
    AddCheck(out, name + ": inputs", known, "both sides are named by digest");
  }
  AddNotChecked(out, "differences and intervals", "need the aggregates that `inputs` names");
}

}  // namespace assay
