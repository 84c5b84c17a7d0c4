#include "storage/report/published_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr int64_t kIndexMax = (int64_t{1} << 31) - 1;

absl::Status Invalid(const std::string& where, const std::string& why) {
  return InvalidError("REPORT_INVALID", where + ": " + why + "; fetch the report again");
}

// What both lists hold.
absl::StatusOr<PublishedRow> ReadRow(const JsonFields& fields) {
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  PublishedRow row;
  ASSAY_ASSIGN_OR_RETURN(row.index, fields.Int("index", 0, kIndexMax));
  ASSAY_ASSIGN_OR_RETURN(row.stratum, fields.String("stratum"));
  ASSAY_ASSIGN_OR_RETURN(row.source_cluster, fields.String("source_cluster"));
  ASSAY_ASSIGN_OR_RETURN(row.mean_kld, fields.Number("mean_kld"));
  ASSAY_ASSIGN_OR_RETURN(row.median_kld, fields.Number("median_kld"));
  ASSAY_ASSIGN_OR_RETURN(row.top1_agreement, fields.Number("top1_agreement"));
  return row;
}

absl::Status AddDetail(const Json& json, const std::string& where, PublishedRow* row) {
  const JsonFields fields(json, where);
  ASSAY_ASSIGN_OR_RETURN(const PublishedRow detail, ReadRow(fields));
  const bool same = detail.index == row->index && detail.stratum == row->stratum &&
                    detail.source_cluster == row->source_cluster &&
                    detail.mean_kld == row->mean_kld && detail.median_kld == row->median_kld &&
                    detail.top1_agreement == row->top1_agreement;
  if (!same) return Invalid(where, "differs from its row in per_context_all");
  ASSAY_ASSIGN_OR_RETURN(row->max_kld, fields.Number("max_kld"));
  ASSAY_ASSIGN_OR_RETURN(row->mean_jsd_bits, fields.Number("mean_jsd_bits"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PublishedRow>> ReadPublishedRows(const Json& document,
                                                            std::string_view name) {
  const std::string where(name);
  const JsonFields fields(document, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  const bool first_generation = !fields.Has("per_context_all") && fields.Has("per_context");
  ASSAY_ASSIGN_OR_RETURN(const Json* all,
                         fields.Array(first_generation ? "per_context" : "per_context_all"));
  const Json* details = nullptr;
  if (fields.Has("per_context")) {
    ASSAY_ASSIGN_OR_RETURN(details, fields.Array("per_context"));
    if (details->size() != all->size()) {
      return Invalid(where, "per_context and per_context_all have different lengths");
    }
  }
  if (all->empty()) return Invalid(where, "it has no rows");
  int64_t each = 0;
  if (first_generation) {
    const auto contexts = static_cast<int64_t>(all->size());
    ASSAY_ASSIGN_OR_RETURN(const int64_t positions, fields.Int("scored_positions", 1, kIndexMax));
    if (positions % contexts != 0) {
      return Invalid(where, "its contexts cannot all have the same number of positions");
    }
    each = positions / contexts;
  }
  std::vector<PublishedRow> rows;
  std::map<int64_t, size_t> seen;
  for (size_t i = 0; i < all->size(); ++i) {
    const std::string at = "[" + std::to_string(i) + "]";
    const JsonFields entry((*all)[i], where + ": per_context_all" + at);
    ASSAY_ASSIGN_OR_RETURN(PublishedRow row, ReadRow(entry));
    row.positions = each;
    if (!first_generation) {
      ASSAY_ASSIGN_OR_RETURN(row.positions, entry.Int("positions_scored", 1, kIndexMax));
    }
    if (!seen.emplace(row.index, i).second) {
      return Invalid(entry.where(), "index " + std::to_string(row.index) + " appears twice");
    }
    if (details != nullptr) {
      ASSAY_RETURN_IF_ERROR(AddDetail((*details)[i], where + ": per_context" + at, &row));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

int64_t PublishedPositions(const std::vector<PublishedRow>& rows) {
  int64_t positions = 0;
  for (const PublishedRow& row : rows) positions += row.positions;
  return positions;
}

std::vector<double> PublishedMeans(const std::vector<PublishedRow>& rows) {
  std::vector<double> out;
  for (const PublishedRow& row : rows) out.push_back(row.mean_kld);
  return out;
}

double WeightedByPositions(const std::vector<PublishedRow>& rows, double PublishedRow::*value) {
  ExactSum sum;
  for (const PublishedRow& row : rows) sum.Add(row.*value * static_cast<double>(row.positions));
  return sum.Result() / static_cast<double>(PublishedPositions(rows));
}

Json PublishedBootstrapJson(const std::vector<PublishedRow>& rows,
                            const std::vector<double>& values, uint32_t samples, uint64_t seed,
                            BootstrapSum sum) {
  std::vector<ClusterValue> clusters;
  for (size_t i = 0; i < rows.size(); ++i) clusters.push_back({rows[i].source_cluster, values[i]});
  BootstrapOptions options;
  options.samples = samples;
  options.seed = seed;
  options.clusters_min = 1;
  options.sum = sum;
  const BootstrapResult result = ClusterBootstrap(clusters, options);
  return {{"mean", result.mean},
          {"ci95_low", result.ci95_low},
          {"ci95_high", result.ci95_high},
          {"clusters", result.clusters},
          {"samples", result.samples}};
}

Json PublishedContextJson(const PublishedRow& row) {
  return {{"index", row.index},
          {"stratum", row.stratum},
          {"source_cluster", row.source_cluster},
          {"mean_kld", row.mean_kld},
          {"median_kld", row.median_kld},
          {"max_kld", row.max_kld},
          {"mean_jsd_bits", row.mean_jsd_bits},
          {"top1_agreement", row.top1_agreement}};
}

Json PublishedContextAllJson(const PublishedRow& row) {
  return {{"index", row.index},
          {"source_cluster", row.source_cluster},
          {"stratum", row.stratum},
          {"positions_scored", row.positions},
          {"mean_kld", row.mean_kld},
          {"median_kld", row.median_kld},
          {"top1_agreement", row.top1_agreement}};
}

std::vector<PublishedRow> WorstPublished(const std::vector<PublishedRow>& rows, size_t count) {
  std::vector<PublishedRow> out = rows;
  std::stable_sort(out.begin(), out.end(), [](const PublishedRow& a, const PublishedRow& b) {
    return a.mean_kld > b.mean_kld;
  });
  if (out.size() > count) out.resize(count);
  return out;
}

Json PublishedStrataJson(const std::vector<PublishedRow>& rows) {
  std::map<std::string, std::vector<PublishedRow>> strata;
  for (const PublishedRow& row : rows) strata[row.stratum].push_back(row);
  Json out = Json::object();
  for (const auto& [name, group] : strata) {
    out[name] = {{"contexts", group.size()},
                 {"scored_positions", PublishedPositions(group)},
                 {"macro_mean_kld", ExactMean(PublishedMeans(group))},
                 {"token_mean_kld", WeightedByPositions(group, &PublishedRow::mean_kld)}};
  }
  return out;
}

Json PublishedWorstJson(const std::vector<PublishedRow>& rows, size_t count) {
  Json out = Json::array();
  for (const PublishedRow& row : WorstPublished(rows, count)) {
    out.push_back({{"index", row.index},
                   {"stratum", row.stratum},
                   {"source_cluster", row.source_cluster},
                   {"mean_kld", row.mean_kld},
                   {"top1_agreement", row.top1_agreement}});
  }
  return out;
}

}  // namespace assay
