#include "storage/report/published_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_rows.h"
#include "storage/report/sums.h"
#include "storage/report/tail.h"

namespace assay {
namespace {

constexpr size_t kWorst = 20;
constexpr int64_t kPositionsMax = (int64_t{1} << 31) - 1;

absl::Status Mismatch(const std::string& where, const std::string& why) {
  return DataLossError("REPORT_MISMATCH",
                       where + ": " + why + "; the report was changed or damaged, fetch it again");
}

// The document with the members of `computed` in place of its own; order and other members stay.
Json Replaced(const Json& document, const Json& computed) {
  Json out = Json::object();
  for (const auto& [key, value] : document.items()) {
    out[key] = computed.contains(key) ? computed.at(key) : value;
  }
  return out;
}

absl::StatusOr<Json> WindowJson(const Json& window, const std::vector<PublishedRow>& rows,
                                const std::string& where) {
  const JsonFields fields(window, where + ": scored_position_window");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const int64_t from, fields.Int("score_from", 0, kPositionsMax));
  int64_t least = rows.front().positions, most = least;
  for (const PublishedRow& row : rows) {
    least = std::min<int64_t>(least, row.positions);
    most = std::max<int64_t>(most, row.positions);
  }
  const auto if_equal = [&](int64_t value) { return least == most ? Json(value) : Json(nullptr); };
  return Replaced(window, {{"windowed", from > 0},
                           {"positions_per_context", if_equal(least)},
                           {"positions_per_context_min", least},
                           {"positions_per_context_max", most},
                           {"capture_positions_per_context", if_equal(least + from)},
                           {"dropped_positions_per_context", from},
                           {"dropped_positions_total", from * static_cast<int64_t>(rows.size())},
                           {"first_scored_position_index", from},
                           {"min_left_context_tokens", from + 1}});
}

absl::StatusOr<Json> HistogramJson(const Json& tail, double max_kld, const std::string& where) {
  const JsonFields fields(tail, where + ": kld_tail");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const Json* counts, fields.Array("counts"));
  if (counts->size() != kTailEdges + 1) return fields.Invalid("counts", "must hold 562 counts");
  int64_t total = 0;
  for (const Json& count : *counts) {
    if (!count.is_number_integer() || count.get<int64_t>() < 0 ||
        count.get<int64_t>() > kPositionsMax) {
      return fields.Invalid("counts", "must hold counts");
    }
    total += count.get<int64_t>();
  }
  const auto& edges = TailEdges();
  const auto bucket =
      static_cast<size_t>(std::upper_bound(edges.begin(), edges.end(), max_kld) - edges.begin());
  for (size_t i = bucket; i < counts->size(); ++i) {
    const bool any = (*counts)[i].get<int64_t>() > 0;
    if (any == (i == bucket)) continue;
    return Mismatch(fields.where(), "the histogram's last bucket is not that of the largest value");
  }
  return Replaced(tail, {{"bin_edges", edges},
                         {"total_count", total},
                         {"underflow_count", counts->front()},
                         {"overflow_count", counts->back()},
                         {"max_kld", max_kld}});
}

Json StrataJson(const std::vector<PublishedRow>& rows) {
  std::map<std::string_view, std::vector<double>> strata;
  for (const PublishedRow& row : rows) strata[row.stratum].push_back(row.mean_kld);
  Json out = Json::object();
  for (const auto& [name, means] : strata) {
    out[std::string(name)] = {{"contexts", means.size()}, {"mean_kld", ExactMean(means)}};
  }
  return out;
}

absl::StatusOr<double> Top1Agreement(const std::vector<PublishedRow>& rows,
                                     const std::string& where) {
  int64_t hits = 0;
  for (const PublishedRow& row : rows) {
    const auto positions = static_cast<double>(row.positions);
    const double count = std::nearbyint(row.top1_agreement * positions);
    if (!(count >= 0 && count <= positions) || count / positions != row.top1_agreement) {
      return Mismatch(where, "context " + std::to_string(row.index) +
                                 ": top1_agreement is no number of hits among its positions");
    }
    hits += static_cast<int64_t>(count);
  }
  return static_cast<double>(hits) / static_cast<double>(PublishedPositions(rows));
}

absl::Status CheckTokenMean(const JsonFields& fields, const std::vector<PublishedRow>& rows) {
  ASSAY_ASSIGN_OR_RETURN(const double stated, fields.Number("token_mean_kld"));
  const double mean = WeightedByPositions(rows, &PublishedRow::mean_kld);
  if (std::fabs(stated - mean) <= kTorchMeanTolerance * std::fabs(mean)) return absl::OkStatus();
  return Mismatch(fields.where(), "token_mean_kld is " + PythonFloat(stated) + ", its rows give " +
                                      PythonFloat(mean));
}

absl::StatusOr<uint32_t> BootstrapSamples(const JsonFields& fields) {
  ASSAY_ASSIGN_OR_RETURN(const Json* bootstrap, fields.Object("context_bootstrap"));
  const JsonFields in(*bootstrap, fields.where() + ": context_bootstrap");
  ASSAY_ASSIGN_OR_RETURN(const int64_t samples, in.Int("samples", 40, 1'000'000));
  return static_cast<uint32_t>(samples);
}

// The histogram, and the headline quantiles that repeat those in it.
absl::Status AddTail(const Json& report, const std::string& where, Json* computed) {
  const double max_kld = computed->at("max_kld").get<double>();
  ASSAY_ASSIGN_OR_RETURN(Json tail, HistogramJson(report.at("kld_tail"), max_kld, where));
  const JsonFields fields(tail, where + ": kld_tail");
  ASSAY_ASSIGN_OR_RETURN(const Json* quantiles, fields.Object("shard_exact_quantiles"));
  for (const auto& [headline, name] : {std::pair("token_median_kld", "p50"),
                                       {"p95_kld", "p95"},
                                       {"p99_kld", "p99"},
                                       {"p999_kld", "p999"}}) {
    const JsonFields in(*quantiles, fields.where() + ": shard_exact_quantiles");
    ASSAY_ASSIGN_OR_RETURN((*computed)[headline], in.Number(name));
  }
  (*computed)["kld_tail"] = std::move(tail);
  return absl::OkStatus();
}

std::vector<double> Details(const std::vector<PublishedRow>& rows, double PublishedRow::*value) {
  std::vector<double> out;
  for (const PublishedRow& row : rows) out.push_back(row.*value);
  return out;
}

}  // namespace

absl::StatusOr<Json> RecomputePublishedReport(const Json& report, std::string_view name) {
  const std::string where(name);
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PublishedRow> rows, ReadPublishedRows(report, where));
  const JsonFields fields(report, where);
  const PublishedSchema schema = PublishedSchemaOf(report);
  if (!schema.Is("fidelity-report") || !fields.Has("per_context")) {
    return InvalidError("REPORT_INVALID", where + ": no published replay report with its rows");
  }
  ASSAY_RETURN_IF_ERROR(CheckTokenMean(fields, rows));
  ASSAY_ASSIGN_OR_RETURN(const uint32_t samples, BootstrapSamples(fields));
  const std::vector<double> means = PublishedMeans(rows);
  Json computed;
  computed["contexts"] = rows.size();
  computed["scored_positions"] = PublishedPositions(rows);
  const std::vector<double> maxima = Details(rows, &PublishedRow::max_kld);
  computed["max_kld"] = *std::max_element(maxima.begin(), maxima.end());
  computed["context_macro_mean_kld"] = ExactMean(means);
  computed["context_bootstrap"] =
      PublishedBootstrapJson(rows, means, samples, 1, BootstrapSum::kCompensated);
  computed["mean_jsd_bits"] = ExactMean(Details(rows, &PublishedRow::mean_jsd_bits));
  ASSAY_ASSIGN_OR_RETURN(computed["top1_agreement"], Top1Agreement(rows, where));
  computed["strata"] = StrataJson(rows);
  computed["worst_contexts"] = Json::array();
  for (const PublishedRow& row : WorstPublished(rows, kWorst)) {
    computed["worst_contexts"].push_back(PublishedContextJson(row));
  }
  computed["per_context"] = computed["per_context_all"] = Json::array();
  for (const PublishedRow& row : rows) {
    computed["per_context"].push_back(PublishedContextJson(row));
    computed["per_context_all"].push_back(PublishedContextAllJson(row));
  }
  if (fields.Has("scored_position_window")) {
    ASSAY_ASSIGN_OR_RETURN(Json window,
                           WindowJson(report.at("scored_position_window"), rows, where));
    computed["schema"] =
        schema.Sibling("fidelity-report", window.at("windowed").get<bool>() ? 3 : 2);
    computed["scored_position_window"] = std::move(window);
  }
  if (fields.Has("kld_tail")) ASSAY_RETURN_IF_ERROR(AddTail(report, where, &computed));
  return Replaced(report, computed);  // per_context_all stays absent where it is
}

}  // namespace assay
