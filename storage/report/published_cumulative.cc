// Writing the receipt of an aggregate.

#include "storage/report/published_cumulative.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_rows.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr size_t kWorst = 20;
constexpr std::array<std::pair<const char*, int64_t>, 4> kLadder = {
    {{"1M", 1'000'000}, {"2M", 2'000'000}, {"5M", 5'000'000}, {"10M", 10'000'000}}};

constexpr char kRowsMember[] = "per_context_all";
constexpr size_t kPieceBytes = size_t{1} << 16;  // of what is written or hashed at once

void HashRows(const std::vector<PublishedRow>& rows, Sha256* digest) {
  std::string piece = "[";
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) piece += ',';
    AppendContextAllCanon(rows[i], &piece);
    if (piece.size() < kPieceBytes) continue;
    digest->Update(std::string_view(piece));
    piece.clear();
  }
  digest->Update(std::string_view(piece += ']'));
}

// PublishedContentSha256 of a document whose rows are `rows` instead of what it holds.
std::string ContentSha256(const Json& document, const std::vector<std::string>& excluded,
                          const std::vector<PublishedRow>* rows) {
  std::map<std::string, const Json*> members;
  for (const auto& [key, value] : document.items()) members[key] = &value;
  for (const std::string& key : excluded) members.erase(key);
  Sha256 digest;
  const char* before = "{";
  for (const auto& [key, value] : members) {  // by code point, as UTF-8 bytes sort
    digest.Update(std::string_view(before + PythonCanonJson(Json(key)) + ":"));
    if (rows != nullptr && key == kRowsMember) {
      HashRows(*rows, &digest);
    } else {
      digest.Update(std::string_view(PythonCanonJson(*value)));
    }
    before = ",";
  }
  digest.Update(std::string_view(members.empty() ? "{}" : "}"));
  return digest.FinishHex();
}

}  // namespace

Json PublishedAggregator::WindowJson(const AggregateProse& prose) const {
  std::set<Json> declared;
  std::set<std::string> schemas;
  bool all_declare = true;
  for (const PublishedShard& shard : shards_) {
    schemas.insert(shard.schema);
    all_declare = all_declare && shard.window_declared;
    if (!shard.positions_per_context.is_null()) declared.insert(shard.positions_per_context);
  }
  const int64_t from = shards_.front().score_from;
  return {
      {"schema", ParsePublishedSchema(shards_.front().schema).Sibling("scored-position-window", 1)},
      {"score_from", from},
      {"windowed", from > 0},
      {"policy", prose.window_policy},
      {"positions_per_context", declared.size() == 1 ? *declared.begin() : Json(nullptr)},
      {"min_left_context_tokens", from + 1},
      {"declared_by_all_reports", all_declare},
      {"report_schemas", schemas}};
}

Json PublishedAggregator::SuiteJson() const {
  Json parent = nullptr;
  if (options_.parent != nullptr) {
    const Suite& suite = *options_.parent;
    parent = {{"path", options_.parent_path},
              {"manifest_sha256", suite.manifest_sha256},
              {"schema", suite.schema},
              {"suite_token_sha256", suite.suite_token_sha256},
              {"contexts", suite.contexts.size()},
              {"context_length", suite.context_length},
              {"scored_positions_per_context", suite.context_length - 1}};
  }
  return {{"mode", options_.parent != nullptr ? "parent-lineage" : "single-suite-digest"},
          {"shard_size", options_.shard_size},
          {"shards", options_.shard_size > 0 ? Json(covered_) : Json(nullptr)},
          {"requested_shards", options_.shards.empty() ? Json(nullptr) : Json(options_.shards)},
          {"suite_token_sha256",
           options_.parent != nullptr ? Json(nullptr) : first().at("suite_token_sha256")},
          {"parent", std::move(parent)}};
}

Json PublishedAggregator::LadderJson() const {
  const int64_t positions = PublishedPositions(rows_);
  Json out = {{"checkpoint", nullptr},
              {"checkpoint_positions", nullptr},
              {"next", nullptr},
              {"next_positions", nullptr},
              {"positions_to_next", nullptr}};
  for (const auto& [name, need] : kLadder) {
    if (positions >= need) {
      out["checkpoint"] = name;
      out["checkpoint_positions"] = need;
    } else if (out["next"].is_null()) {
      out["next"] = name;
      out["next_positions"] = need;
      out["positions_to_next"] = need - positions;
    }
    out["targets"][name] = need;
  }
  return out;
}

Json PublishedAggregator::ShardsJson() const {
  Json out = Json::array();
  for (const PublishedShard& shard : shards_) {
    const Json& report = shard.stated;
    Json row = {{"shard", options_.shard_size > 0 ? Json(ShardOf(shard.index_min)) : Json(nullptr)},
                {"report", shard.path},
                {"report_sha256", shard.sha256},
                {"suite_token_sha256", report.at("suite_token_sha256")},
                {"reference_capture", report.value("reference", Json())},
                {"candidate_capture", report.value("candidate", Json())},
                {"contexts", shard.contexts},
                {"scored_positions", shard.positions},
                {"context_index_min", shard.index_min},
                {"context_index_max", shard.index_max}};
    for (const char* key :
         {"token_mean_kld", "context_macro_mean_kld", "top1_agreement", "max_kld", "p999_kld"}) {
      row[key] = report.value(key, Json());
    }
    row["row_consistency"] = {{"token_mean_relative_gap", shard.token_mean_gap},
                              {"top1_relative_gap", shard.top1_gap}};
    out.push_back(std::move(row));
  }
  return out;
}

// Reports weighted by their contexts.
double PublishedAggregator::MeanJsd() const {
  ExactSum sum;
  for (const PublishedShard& shard : shards_) {
    sum.Add(shard.stated.at("mean_jsd_bits").get<double>() * static_cast<double>(shard.contexts));
  }
  return sum.Result() / static_cast<double>(rows_.size());
}

std::string PublishedAggregator::Candidate() const {
  if (!options_.candidate.empty()) return options_.candidate;
  const Json identity = first().value("candidate_identity", Json());
  const Json path = identity.is_object() ? identity.value("model_path", Json()) : Json();
  return BaseName(path.is_string() ? path.get<std::string>()
                                   : first().value("candidate", "unknown"));
}

// What identifies the measurement, in the receipt's order.
Json PublishedAggregator::HeadJson(const AggregateProse& prose) const {
  Json out;
  out["schema"] = ParsePublishedSchema(shards_.front().schema)
                      .Sibling("kld-ladder-cumulative", options_.generation);
  out["tool"] = options_.tool;
  out["generated_unix"] = options_.generated_unix;
  out["candidate"] = Candidate();
  out["label"] = options_.label.empty() ? Json(nullptr) : Json(options_.label);
  const auto copy = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys) out[key] = first().value(key, Json());
  };
  copy({"reference_identity", "candidate_identity", "head", "head_sha256", "candidate_head",
        "candidate_head_sha256", "filter"});
  if (options_.generation >= 3) out["scored_position_window"] = WindowJson(prose);
  copy({"vocab_size", "hidden_size", "comparator"});
  out["suite"] = SuiteJson();
  return out;
}

void PublishedAggregator::AddStatistics(const AggregateProse& prose, Json* out) const {
  absl::flat_hash_set<std::string_view> clusters;
  for (const PublishedRow& row : rows_) clusters.insert(row.source_cluster);
  double max_kld = -INFINITY;
  for (const PublishedShard& shard : shards_) {
    max_kld = std::max(max_kld, shard.max_kld);
  }
  const std::vector<double> means = PublishedMeans(rows_);
  Json& json = *out;
  json["reports"] = shards_.size();
  json["contexts"] = rows_.size();
  json["scored_positions"] = PublishedPositions(rows_);
  json["source_clusters"] = clusters.size();
  json["token_mean_kld"] = WeightedByPositions(rows_, &PublishedRow::mean_kld);
  json["context_macro_mean_kld"] = ExactMean(means);
  json["context_bootstrap"] = PublishedBootstrapJson(rows_, means, options_.samples, options_.seed,
                                                     BootstrapSum::kExactByCluster);
  json["bootstrap_config"] = {{"samples", options_.samples},
                              {"seed", options_.seed},
                              {"unit", prose.bootstrap_unit},
                              {"over", prose.bootstrap_over}};
  json["top1_agreement"] = WeightedByPositions(rows_, &PublishedRow::top1_agreement);
  json["max_kld"] = max_kld;
  json["mean_jsd_bits"] = MeanJsd();
  json["strata"] = PublishedStrataJson(rows_);
  json["worst_contexts"] = PublishedWorstJson(rows_, kWorst);
}

absl::StatusOr<Json> PublishedAggregator::WithoutRows(const AggregateProse& prose) {
  if (shards_.empty() && faults_.empty()) {
    return InvalidError("REPORT_INVALID", "there are no reports to aggregate");
  }
  if (!shards_.empty()) {
    Order();
    CheckShards();
  }
  ASSAY_RETURN_IF_ERROR(Faults());
  double token_gap = 0, top1_gap = 0;
  for (const PublishedShard& shard : shards_) {
    token_gap = std::max(token_gap, shard.token_mean_gap);
    top1_gap = std::max(top1_gap, shard.top1_gap);
  }
  Json out = HeadJson(prose);
  AddStatistics(prose, &out);
  out["tail"] =
      has_tail() ? CumulativeTailJson(tail_, prose.tail_source, prose.tail_method) : Json(nullptr);
  out["ladder"] = LadderJson();
  out["shards"] = ShardsJson();
  out["consistency"] = {{"tolerance", options_.tolerance},
                        {"max_token_mean_relative_gap", token_gap},
                        {"max_top1_relative_gap", top1_gap},
                        {"note", prose.note}};
  out["not_aggregable"] = prose.not_aggregable;
  for (const PublishedShard& shard : shards_) out["inputs"][shard.path] = shard.sha256;
  if (options_.rows) out[kRowsMember] = Json::array();
  out["content_sha256"] = ContentSha256(out, {"generated_unix"}, options_.rows ? &rows_ : nullptr);
  out["content_sha256_excludes"] = {"generated_unix", "content_sha256"};
  return out;
}

absl::StatusOr<Json> PublishedAggregator::Finish(const AggregateProse& prose) {
  ASSAY_ASSIGN_OR_RETURN(Json out, WithoutRows(prose));
  if (!options_.rows) return out;
  for (const PublishedRow& row : rows_) out[kRowsMember].push_back(PublishedContextAllJson(row));
  return out;
}

absl::StatusOr<Json> PublishedAggregator::Write(const AggregateProse& prose,
                                                const BytesSink& sink) {
  ASSAY_ASSIGN_OR_RETURN(Json out, WithoutRows(prose));
  const std::string text = PythonPrettyJson(out);
  // Where rows go. Text of values has no line ends, so this is no part of one.
  const std::string empty = "\n  \"" + std::string(kRowsMember) + "\": [";
  const size_t at = options_.rows ? text.find(empty) + empty.size() : 0;
  std::string piece = text.substr(0, at);
  for (size_t i = 0; options_.rows && i < rows_.size(); ++i) {
    piece += i == 0 ? "\n    " : ",\n    ";
    AppendContextAllPretty(rows_[i], &piece);
    if (piece.size() < kPieceBytes) continue;
    ASSAY_RETURN_IF_ERROR(sink(piece));
    piece.clear();
  }
  if (options_.rows) piece += "\n  ";
  piece += std::string_view(text).substr(at);
  ASSAY_RETURN_IF_ERROR(sink(piece));
  return out;
}

absl::StatusOr<Json> AggregatePublishedReports(const std::vector<PublishedInput>& reports,
                                               const AggregateOptions& options,
                                               const AggregateProse& prose) {
  PublishedAggregator aggregator(options);
  for (const PublishedInput& report : reports) aggregator.Add(report);
  return aggregator.Finish(prose);
}

std::string PublishedContentSha256(const Json& document, const std::vector<std::string>& excluded) {
  return ContentSha256(document, excluded, nullptr);
}

}  // namespace assay
