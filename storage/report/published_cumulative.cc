#include "storage/report/published_cumulative.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/published_report.h"
#include "storage/report/published_rows.h"
#include "storage/report/published_tail.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr size_t kWorst = 20;
constexpr std::array<std::pair<const char*, int64_t>, 4> kLadder = {
    {{"1M", 1'000'000}, {"2M", 2'000'000}, {"5M", 5'000'000}, {"10M", 10'000'000}}};

struct Shard {
  const PublishedInput* input = nullptr;
  std::vector<PublishedRow> rows;
  double token_mean_gap = 0, top1_gap = 0;
};

double RelativeGap(double a, double b) {
  const double scale = std::max(std::fabs(a), std::fabs(b));
  return scale == 0 ? 0.0 : std::fabs(a - b) / scale;
}

absl::Status NotComparable(const PublishedInput& input, const std::string& why) {
  return InvalidError("NOT_COMPARABLE", input.path + ": " + why + "; aggregate it separately");
}

absl::Status Uncovered(const std::string& why) {
  return InvalidError("COVERAGE_INVALID",
                      why + "; give every shard's report once, and the suite they are views of");
}

// What all reports of one receipt share.
Json IdentityOf(const Json& report) {
  Json out;
  for (const char* key : {"head", "head_sha256", "candidate_head", "candidate_head_sha256",
                          "filter", "vocab_size", "hidden_size", "comparator"}) {
    out[key] = report.value(key, Json());
  }
  for (const char* side : {"reference_identity", "candidate_identity"}) {
    const Json block = report.value(side, Json());
    for (const char* key :
         {"model_path", "model_revision", "model_revision_source", "index_sha256", "config_sha256",
          "shard_sha256", "quantization", "quantization_config", "trust_remote_code",
          "kv_cache_dtype_requested", "kv_cache_dtype_resolved"}) {
      out[side][key] = block.is_object() ? block.value(key, Json()) : Json();
    }
  }
  return out;
}

class Aggregation {
 public:
  Aggregation(const AggregateOptions& options, const AggregateProse& prose)
      : options_(options), prose_(prose) {}

  absl::Status Add(const PublishedInput& input);
  absl::Status Settle();
  absl::StatusOr<Json> Receipt() const;

 private:
  const Json& first() const { return shards_.front().input->document; }
  int64_t ShardOf(int64_t index) const { return index / options_.shard_size; }
  absl::Status CheckShards();
  absl::Status CheckLineage(const Shard& shard) const;
  Json WindowJson() const;
  Json SuiteJson() const;
  Json LadderJson() const;
  Json ShardsJson() const;
  double MeanJsd() const;
  std::string Candidate() const;
  Json HeadJson() const;
  void AddStatistics(Json* out) const;

  const AggregateOptions& options_;
  const AggregateProse& prose_;
  std::vector<Shard> shards_;
  std::vector<PublishedRow> rows_;  // of all shards, in the parent's order
  std::map<int64_t, size_t> order_;
  std::set<int64_t> covered_;
};

absl::Status Aggregation::Add(const PublishedInput& input) {
  const Json& report = input.document;
  ASSAY_RETURN_IF_ERROR(RecomputePublishedReport(report, input.path).status());
  if (!report.contains("kld_tail") || !report.contains("scored_position_window")) {
    return InvalidError("REPORT_INVALID",
                        input.path +
                            ": the report is of a generation without histogram or "
                            "window; only /2 and /3 reports are aggregated");
  }
  Shard shard;
  shard.input = &input;
  ASSAY_ASSIGN_OR_RETURN(shard.rows, ReadPublishedRows(report, input.path));
  shard.token_mean_gap = RelativeGap(WeightedByPositions(shard.rows, &PublishedRow::mean_kld),
                                     report.at("token_mean_kld").get<double>());
  shard.top1_gap = RelativeGap(WeightedByPositions(shard.rows, &PublishedRow::top1_agreement),
                               report.at("top1_agreement").get<double>());
  if (shard.token_mean_gap > options_.tolerance || shard.top1_gap > options_.tolerance) {
    return NotComparable(input, "its headline does not follow from its rows");
  }
  if (!shards_.empty()) {
    const Json ours = IdentityOf(report), theirs = IdentityOf(first());
    for (const auto& [key, value] : theirs.items()) {
      if (ours.at(key) != value) return NotComparable(input, key + " differs");
    }
    const auto from = [](const Json& r) { return r.at("scored_position_window").at("score_from"); };
    if (from(report) != from(first())) return NotComparable(input, "its scored window differs");
    if (options_.parent == nullptr &&
        report.at("suite_token_sha256") != first().at("suite_token_sha256")) {
      return NotComparable(input, "its suite differs");
    }
  }
  shards_.push_back(std::move(shard));
  return absl::OkStatus();
}

// A report names the digest of its contexts in the parent's order.
absl::Status Aggregation::CheckLineage(const Shard& shard) const {
  std::map<size_t, std::string> digests;
  for (const PublishedRow& row : shard.rows) {
    const size_t at = order_.at(row.index);
    digests[at] = options_.parent->contexts[at].token_sha256;
  }
  std::string all;
  for (const auto& [at, digest] : digests) all += digest;
  if (Sha256Hex(all) == shard.input->document.at("suite_token_sha256")) return absl::OkStatus();
  return Uncovered(shard.input->path + ": its suite digest is not that of the contexts it scored");
}

// Whole shards, and exactly those asked for.
absl::Status Aggregation::CheckShards() {
  if (options_.shard_size == 0) return absl::OkStatus();
  std::map<int64_t, int64_t> counts;
  for (const PublishedRow& row : rows_) ++counts[ShardOf(row.index)];
  for (const auto& [shard, count] : counts) {
    covered_.insert(shard);
    int64_t want = options_.shard_size;
    if (options_.parent != nullptr) {
      const auto total = static_cast<int64_t>(options_.parent->contexts.size());
      want = std::min(want, std::max<int64_t>(0, total - shard * options_.shard_size));
    }
    if (count == want) continue;
    return Uncovered("shard " + std::to_string(shard) + " has " + std::to_string(count) + " of " +
                     std::to_string(want) + " contexts");
  }
  std::set<int64_t> wanted(options_.shards.begin(), options_.shards.end());
  for (size_t s = 0; options_.shards.empty() && s < covered_.size(); ++s) {
    wanted.insert(static_cast<int64_t>(s));
  }
  return covered_ == wanted ? absl::OkStatus()
                            : Uncovered("other shards are covered than asked for");
}

absl::Status Aggregation::Settle() {
  if (options_.parent != nullptr) {
    for (size_t i = 0; i < options_.parent->contexts.size(); ++i) {
      order_[options_.parent->contexts[i].index] = i;
    }
  }
  std::set<int64_t> seen;
  for (const Shard& shard : shards_) {
    for (const PublishedRow& row : shard.rows) {
      const std::string context = shard.input->path + ": context " + std::to_string(row.index);
      if (!seen.insert(row.index).second) return Uncovered(context + " is in another report too");
      if (options_.parent != nullptr && order_.count(row.index) == 0) {
        return Uncovered(context + " is not in the suite");
      }
      rows_.push_back(row);
    }
    if (options_.parent != nullptr) ASSAY_RETURN_IF_ERROR(CheckLineage(shard));
  }
  const auto key = [this](const PublishedRow& row) {
    return options_.parent == nullptr ? row.index : static_cast<int64_t>(order_.at(row.index));
  };
  std::sort(rows_.begin(), rows_.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto least = [](const Shard& shard) {
    return std::min_element(shard.rows.begin(), shard.rows.end(),
                            [](const auto& a, const auto& b) { return a.index < b.index; });
  };
  std::stable_sort(shards_.begin(), shards_.end(),
                   [&](const Shard& a, const Shard& b) { return key(*least(a)) < key(*least(b)); });
  return CheckShards();
}

Json Aggregation::WindowJson() const {
  std::set<Json> declared;
  std::set<std::string> schemas;
  for (const Shard& shard : shards_) {
    const Json& report = shard.input->document;
    schemas.insert(report.at("schema").get<std::string>());
    const Json& value = report.at("scored_position_window").at("positions_per_context");
    if (!value.is_null()) declared.insert(value);
  }
  const int64_t from = first().at("scored_position_window").at("score_from").get<int64_t>();
  return {{"schema", first().at("scored_position_window").at("schema")},
          {"score_from", from},
          {"windowed", from > 0},
          {"policy", prose_.window_policy},
          {"positions_per_context", declared.size() == 1 ? *declared.begin() : Json(nullptr)},
          {"min_left_context_tokens", from + 1},
          {"declared_by_all_reports", true},
          {"report_schemas", schemas}};
}

Json Aggregation::SuiteJson() const {
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

Json Aggregation::LadderJson() const {
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

Json Aggregation::ShardsJson() const {
  Json out = Json::array();
  for (const Shard& shard : shards_) {
    const Json& report = shard.input->document;
    int64_t low = shard.rows.front().index, high = low;
    for (const PublishedRow& row : shard.rows) {
      low = std::min(low, row.index);
      high = std::max(high, row.index);
    }
    Json row = {{"shard", options_.shard_size > 0 ? Json(ShardOf(low)) : Json(nullptr)},
                {"report", shard.input->path},
                {"report_sha256", shard.input->sha256},
                {"suite_token_sha256", report.at("suite_token_sha256")},
                {"reference_capture", report.value("reference", Json())},
                {"candidate_capture", report.value("candidate", Json())},
                {"contexts", shard.rows.size()},
                {"scored_positions", PublishedPositions(shard.rows)},
                {"context_index_min", low},
                {"context_index_max", high}};
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
double Aggregation::MeanJsd() const {
  ExactSum sum;
  for (const Shard& shard : shards_) {
    sum.Add(shard.input->document.at("mean_jsd_bits").get<double>() *
            static_cast<double>(shard.rows.size()));
  }
  return sum.Result() / static_cast<double>(rows_.size());
}

std::string Aggregation::Candidate() const {
  if (!options_.candidate.empty()) return options_.candidate;
  const Json identity = first().value("candidate_identity", Json());
  const Json path = identity.is_object() ? identity.value("model_path", Json()) : Json();
  return BaseName(path.is_string() ? path.get<std::string>()
                                   : first().value("candidate", "unknown"));
}

// What identifies the measurement, in the receipt's order.
Json Aggregation::HeadJson() const {
  Json out;
  out["schema"] = "qwen38-kld-ladder-cumulative/3";
  out["tool"] = options_.tool;
  out["generated_unix"] = options_.generated_unix;
  out["candidate"] = Candidate();
  out["label"] = options_.label.empty() ? Json(nullptr) : Json(options_.label);
  const auto copy = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys) out[key] = first().value(key, Json());
  };
  copy({"reference_identity", "candidate_identity", "head", "head_sha256", "candidate_head",
        "candidate_head_sha256", "filter"});
  out["scored_position_window"] = WindowJson();
  copy({"vocab_size", "hidden_size", "comparator"});
  out["suite"] = SuiteJson();
  return out;
}

void Aggregation::AddStatistics(Json* out) const {
  std::set<std::string> clusters;
  for (const PublishedRow& row : rows_) clusters.insert(row.source_cluster);
  double max_kld = -INFINITY;
  for (const Shard& shard : shards_) {
    max_kld = std::max(max_kld, shard.input->document.at("max_kld").get<double>());
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
                              {"unit", prose_.bootstrap_unit},
                              {"over", prose_.bootstrap_over}};
  json["top1_agreement"] = WeightedByPositions(rows_, &PublishedRow::top1_agreement);
  json["max_kld"] = max_kld;
  json["mean_jsd_bits"] = MeanJsd();
  json["strata"] = PublishedStrataJson(rows_);
  json["worst_contexts"] = PublishedWorstJson(rows_, kWorst);
}

absl::StatusOr<Json> Aggregation::Receipt() const {
  std::vector<const Json*> tails;
  double token_gap = 0, top1_gap = 0;
  for (const Shard& shard : shards_) {
    tails.push_back(&shard.input->document.at("kld_tail"));
    token_gap = std::max(token_gap, shard.token_mean_gap);
    top1_gap = std::max(top1_gap, shard.top1_gap);
  }
  Json out = HeadJson();
  AddStatistics(&out);
  ASSAY_ASSIGN_OR_RETURN(out["tail"],
                         CumulativeTailJson(tails, prose_.tail_source, prose_.tail_method));
  out["ladder"] = LadderJson();
  out["shards"] = ShardsJson();
  out["consistency"] = {{"tolerance", options_.tolerance},
                        {"max_token_mean_relative_gap", token_gap},
                        {"max_top1_relative_gap", top1_gap},
                        {"note", prose_.note}};
  out["not_aggregable"] = prose_.not_aggregable;
  for (const Shard& shard : shards_) out["inputs"][shard.input->path] = shard.input->sha256;
  out["per_context_all"] = Json::array();
  for (const PublishedRow& row : rows_) {
    out["per_context_all"].push_back(PublishedContextAllJson(row));
  }
  Json hashed = out;
  hashed.erase("generated_unix");
  out["content_sha256"] = Sha256Hex(PythonCanonJson(hashed));
  out["content_sha256_excludes"] = {"generated_unix", "content_sha256"};
  return out;
}

}  // namespace

absl::StatusOr<Json> AggregatePublishedReports(const std::vector<PublishedInput>& reports,
                                               const AggregateOptions& options,
                                               const AggregateProse& prose) {
  if (reports.empty()) return InvalidError("REPORT_INVALID", "there are no reports to aggregate");
  Aggregation aggregation(options, prose);
  for (const PublishedInput& report : reports) ASSAY_RETURN_IF_ERROR(aggregation.Add(report));
  ASSAY_RETURN_IF_ERROR(aggregation.Settle());
  return aggregation.Receipt();
}

}  // namespace assay
