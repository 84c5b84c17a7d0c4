// qwen38-kld-ladder-paired/1 and /2.

#include <algorithm>
#include <map>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/comparability.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_rows.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

using Labelled = std::pair<std::string, PublishedInput>;

// "10,000".
std::string WithThousands(int64_t value) {
  std::string out = std::to_string(value);
  for (auto at = static_cast<int64_t>(out.size()) - 3; at > 0; at -= 3) {
    out.insert(static_cast<size_t>(at), ",");
  }
  return out;
}

Json Member(const Json& object, const char* key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

Json Parent(const Json& receipt) { return Member(Member(receipt, "suite"), "parent"); }

absl::StatusOr<std::map<int64_t, PublishedRow>> RowsByIndex(const Labelled& input) {
  ASSAY_ASSIGN_OR_RETURN(std::vector<PublishedRow> rows,
                         ReadPublishedRows(input.second.document, input.second.path));
  std::map<int64_t, PublishedRow> out;
  for (PublishedRow& row : rows) out.emplace(row.index, std::move(row));
  return out;
}

absl::StatusOr<Json> Compare(const Labelled& a, const Labelled& b,
                             const LadderPairingOptions& options) {
  const auto refuse = [&](const std::string& why) {
    return InvalidError("NOT_COMPARABLE", a.first + " and " + b.first + ": " + why);
  };
  const Comparability found =
      ComparePublished(a.second.document, b.second.document, PublishedUse::kLadderPair);
  if (!found.comparable()) return refuse(found.Text());
  ASSAY_ASSIGN_OR_RETURN(const auto rows_a, RowsByIndex(a));
  ASSAY_ASSIGN_OR_RETURN(const auto rows_b, RowsByIndex(b));
  std::vector<PublishedRow> rows;
  std::vector<double> differences;
  int64_t a_wins = 0, b_wins = 0;
  for (const auto& [index, row] : rows_a) {
    const auto other = rows_b.find(index);
    if (other == rows_b.end()) return refuse("they cover different contexts");
    rows.push_back(row);
    differences.push_back(row.mean_kld - other->second.mean_kld);
    a_wins += differences.back() < 0;
    b_wins += differences.back() > 0;
  }
  const Json interval = PublishedBootstrapJson(rows, differences, options.samples, options.seed,
                                               BootstrapSum::kExactByCluster);
  const auto contexts = static_cast<int64_t>(rows.size());
  Json out = {{"a", a.first},
              {"b", b.first},
              {"contexts", contexts},
              {"difference_a_minus_b", ExactMean(differences)},
              {"ci95_low", interval.at("ci95_low")},
              {"ci95_high", interval.at("ci95_high")},
              {"a_wins", a_wins},
              {"b_wins", options.generation == 1 ? contexts - a_wins : b_wins}};
  if (options.generation > 1) out["ties"] = contexts - a_wins - b_wins;
  out["clusters"] = interval.at("clusters");
  return out;
}

absl::Status CheckReceipt(const Labelled& input) {
  const JsonFields fields(input.second.document, input.second.path);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  const PublishedSchema parsed = ParsePublishedSchema(schema);
  if (parsed.Is("kld-ladder-cumulative") && (parsed.generation == 2 || parsed.generation == 3)) {
    return absl::OkStatus();
  }
  return InvalidError("REPORT_INVALID", input.second.path + ": schema \"" + schema.substr(0, 80) +
                                            "\" is no cumulative receipt of generation 2 or 3");
}

int64_t IntOr0(const Json& value) { return value.is_number_integer() ? value.get<int64_t>() : 0; }

Json SuiteJson(const Json& receipt, const std::string& manifest) {
  const Json parent = Parent(receipt);
  return {{"manifest", manifest.empty() ? Member(parent, "path") : Json(manifest)},
          {"manifest_sha256", Member(parent, "manifest_sha256")},
          {"suite_token_sha256", Member(parent, "suite_token_sha256")},
          {"contexts", Member(receipt, "contexts")},
          {"context_length", Member(parent, "context_length")},
          {"scored_positions", Member(receipt, "scored_positions")},
          {"source_clusters", Member(receipt, "source_clusters")}};
}

Json MethodJson(const Json& receipt, int64_t clusters, const LadderPairingOptions& options) {
  const Json parent = Parent(receipt);
  return {{"unit", "one " + WithThousands(IntOr0(Member(parent, "context_length"))) +
                       "-token context, " +
                       WithThousands(IntOr0(Member(parent, "scored_positions_per_context"))) +
                       " scored positions"},
          {"statistic", options.statistic},
          {"interval", "source-cluster bootstrap, " + WithThousands(options.samples) +
                           " resamples, seed " + std::to_string(options.seed) + ", " +
                           std::to_string(clusters) + " clusters resampled with replacement"},
          {"operands", options.operands}};
}

}  // namespace

absl::StatusOr<Json> PairCumulativeReceipts(
    const std::vector<std::pair<std::string, PublishedInput>>& inputs,
    const std::vector<std::pair<std::string, std::string>>& comparisons,
    const LadderPairingOptions& options) {
  if (inputs.empty() || comparisons.empty()) {
    return InvalidError("REPORT_INVALID", "there are no receipts or no pairs to compare");
  }
  std::map<std::string, const Labelled*> by_label;
  for (const Labelled& input : inputs) {
    ASSAY_RETURN_IF_ERROR(CheckReceipt(input));
    by_label[input.first] = &input;
  }
  Json rows = Json::object();
  int64_t clusters = 0;
  for (const auto& [a, b] : comparisons) {
    if (by_label.count(a) == 0 || by_label.count(b) == 0) {
      return InvalidError("LABEL_UNKNOWN",
                          "no receipt is called \"" + (by_label.count(a) == 0 ? a : b) + "\"");
    }
    ASSAY_ASSIGN_OR_RETURN(Json row, Compare(*by_label[a], *by_label[b], options));
    clusters = std::max(clusters, row.at("clusters").get<int64_t>());
    rows[a + "_vs_" + b] = std::move(row);
  }
  const Json& first = inputs.front().second.document;
  Json out;
  out["schema"] = PublishedSchemaOf(first).Sibling("kld-ladder-paired", options.generation);
  out["generated_utc"] = options.generated_utc;
  out["scope"] = options.scope;
  out["suite"] = SuiteJson(first, options.manifest);
  for (const auto& [label, input] : inputs) {
    out["inputs"][label] = {{"path", input.path},
                            {"sha256", input.sha256},
                            {"content_sha256", Member(input.document, "content_sha256")}};
  }
  out["method"] = MethodJson(first, clusters, options);
  out["comparisons"] = std::move(rows);
  out["content_sha256"] = PublishedContentSha256(out, {"generated_utc"});
  return out;
}

}  // namespace assay
