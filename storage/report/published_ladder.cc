// qwen38-kld-ladder-paired/2, and the fixed sentences of cumulative receipts.

#include <algorithm>
#include <map>

#include "storage/base/digest.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_rows.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr std::string_view kCumulative = "qwen38-kld-ladder-cumulative/";

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

// (first scored position, positions per context) of either generation: where the receipt does not
// say, every position of the parent's contexts was scored.
std::pair<Json, Json> Window(const Json& receipt) {
  const Json block = Member(receipt, "scored_position_window");
  const Json whole = Member(Parent(receipt), "scored_positions_per_context");
  if (!block.is_object()) return {0, whole};
  const Json from = Member(block, "score_from"), declared = Member(block, "positions_per_context");
  return {from.is_null() ? Json(0) : from, declared.is_null() ? whole : declared};
}

absl::StatusOr<std::map<int64_t, PublishedRow>> RowsByIndex(const Labelled& input) {
  ASSAY_ASSIGN_OR_RETURN(std::vector<PublishedRow> rows,
                         ReadPublishedRows(input.second.document, input.second.path));
  std::map<int64_t, PublishedRow> out;
  for (PublishedRow& row : rows) out.emplace(row.index, std::move(row));
  return out;
}

// The first field that keeps two receipts apart; "" when none does.
std::string WhyDifferent(const Json& a, const Json& b) {
  for (const char* key : {"head", "head_sha256", "candidate_head", "candidate_head_sha256",
                          "filter", "vocab_size", "hidden_size", "comparator", "reference_identity",
                          "contexts", "scored_positions", "source_clusters"}) {
    if (Member(a, key) != Member(b, key)) return std::string(key) + " differs";
  }
  if (Window(a) != Window(b)) return "the scored windows differ";
  if (Member(Parent(a), "suite_token_sha256") != Member(Parent(b), "suite_token_sha256")) {
    return "the suites differ";
  }
  return "";
}

absl::StatusOr<Json> Compare(const Labelled& a, const Labelled& b,
                             const LadderPairingOptions& options) {
  const auto refuse = [&](const std::string& why) {
    return InvalidError("NOT_COMPARABLE", a.first + " and " + b.first + ": " + why);
  };
  const std::string why = WhyDifferent(a.second.document, b.second.document);
  if (!why.empty()) return refuse(why);
  ASSAY_ASSIGN_OR_RETURN(const auto rows_a, RowsByIndex(a));
  ASSAY_ASSIGN_OR_RETURN(const auto rows_b, RowsByIndex(b));
  if (rows_a.size() != rows_b.size()) return refuse("they cover different contexts");
  std::vector<PublishedRow> rows;
  std::vector<double> differences;
  int64_t a_wins = 0, b_wins = 0;
  for (const auto& [index, row] : rows_a) {
    const auto other = rows_b.find(index);
    if (other == rows_b.end()) return refuse("they cover different contexts");
    if (other->second.source_cluster != row.source_cluster) {
      return refuse("context " + std::to_string(index) + " has different source clusters");
    }
    rows.push_back(row);
    differences.push_back(row.mean_kld - other->second.mean_kld);
    a_wins += differences.back() < 0;
    b_wins += differences.back() > 0;
  }
  const Json interval = PublishedBootstrapJson(rows, differences, options.samples, options.seed,
                                               BootstrapSum::kExactByCluster);
  return Json{{"a", a.first},
              {"b", b.first},
              {"contexts", rows.size()},
              {"difference_a_minus_b", ExactMean(differences)},
              {"ci95_low", interval.at("ci95_low")},
              {"ci95_high", interval.at("ci95_high")},
              {"a_wins", a_wins},
              {"b_wins", b_wins},
              {"ties", static_cast<int64_t>(rows.size()) - a_wins - b_wins},
              {"clusters", interval.at("clusters")}};
}

absl::Status CheckReceipt(const Labelled& input) {
  const JsonFields fields(input.second.document, input.second.path);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  const std::string number = schema.substr(std::min(schema.size(), kCumulative.size()));
  if (schema.rfind(kCumulative, 0) == 0 && (number == "2" || number == "3")) {
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
  out["schema"] = "qwen38-kld-ladder-paired/2";
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
  Json hashed = out;
  hashed.erase("generated_utc");
  out["content_sha256"] = Sha256Hex(PythonCanonJson(hashed));
  return out;
}

absl::StatusOr<AggregateProse> AggregateProseOf(const Json& receipt, std::string_view where) {
  const JsonFields fields(receipt, std::string(where));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  const auto text = [&](const char* object, const char* key, std::string* out) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const Json* block, fields.Object(object));
    const JsonFields in(*block, fields.where() + ": " + object);
    ASSAY_ASSIGN_OR_RETURN(*out, in.String(key));
    return absl::OkStatus();
  };
  AggregateProse out;
  ASSAY_RETURN_IF_ERROR(text("scored_position_window", "policy", &out.window_policy));
  ASSAY_RETURN_IF_ERROR(text("bootstrap_config", "unit", &out.bootstrap_unit));
  ASSAY_RETURN_IF_ERROR(text("bootstrap_config", "over", &out.bootstrap_over));
  ASSAY_RETURN_IF_ERROR(text("tail", "source", &out.tail_source));
  ASSAY_RETURN_IF_ERROR(text("tail", "method", &out.tail_method));
  ASSAY_RETURN_IF_ERROR(text("consistency", "note", &out.note));
  ASSAY_ASSIGN_OR_RETURN(const Json* reasons, fields.Object("not_aggregable"));
  out.not_aggregable = *reasons;
  return out;
}

}  // namespace assay
