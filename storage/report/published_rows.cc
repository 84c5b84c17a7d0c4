#include "storage/report/published_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/python_string.h"
#include "storage/base/status.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr int64_t kIndexMax = (int64_t{1} << 31) - 1;

absl::Status Invalid(const std::string& where, const std::string& why) {
  return InvalidError("REPORT_INVALID", where + ": " + why + "; fetch the report again");
}

// What both lists hold.
absl::Status CheckRow(const JsonFields& fields) {
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_RETURN_IF_ERROR(fields.Int("index", 0, kIndexMax).status());
  for (const char* name : {"stratum", "source_cluster"}) {
    ASSAY_RETURN_IF_ERROR(fields.String(name).status());
  }
  for (const char* name : {"mean_kld", "median_kld", "top1_agreement"}) {
    ASSAY_RETURN_IF_ERROR(fields.Number(name).status());
  }
  return absl::OkStatus();
}

bool ReadCount(const Json& value, int64_t min, int32_t* out) {
  if (!value.is_number_integer()) return false;
  const auto number = value.get<int64_t>();  // of one beyond it: negative
  *out = static_cast<int32_t>(number);
  return number >= min && number <= kIndexMax;
}

bool ReadName(const Json& value, std::string_view* out) {
  if (!value.is_string()) return false;
  *out = value.get_ref<const std::string&>();
  return true;
}

bool ReadNumber(const Json& value, double* out) {
  if (!value.is_number()) return false;
  *out = value.get<double>();
  return std::isfinite(*out);
}

// What a row says, in one walk over its members: there are tens of thousands of rows. `found` has a
// bit for each kind of member that was there and sound; false leaves it to the caller to say what
// is wrong.
constexpr unsigned kCommon = 63, kPositions = 64, kMax = 128, kJsd = 256;
bool WalkRow(const Json& json, unsigned wanted, PublishedRow* row) {
  if (!json.is_object()) return false;
  unsigned found = 0;
  for (const auto& [key, value] : json.get_ref<const Json::object_t&>()) {
    if (key == "index") {
      found |= ReadCount(value, 0, &row->index) ? 1 : 0;
    } else if (key == "stratum") {
      found |= ReadName(value, &row->stratum) ? 2 : 0;
    } else if (key == "source_cluster") {
      found |= ReadName(value, &row->source_cluster) ? 4 : 0;
    } else if (key == "mean_kld") {
      found |= ReadNumber(value, &row->mean_kld) ? 8 : 0;
    } else if (key == "median_kld") {
      found |= ReadNumber(value, &row->median_kld) ? 16 : 0;
    } else if (key == "top1_agreement") {
      found |= ReadNumber(value, &row->top1_agreement) ? 32 : 0;
    } else if (key == "positions_scored") {
      found |= ReadCount(value, 1, &row->positions) ? kPositions : 0;
    } else if (key == "max_kld") {
      found |= ReadNumber(value, &row->max_kld) ? kMax : 0;
    } else if (key == "mean_jsd_bits") {
      found |= ReadNumber(value, &row->mean_jsd_bits) ? kJsd : 0;
    }
  }
  return (found & wanted) == wanted;
}

absl::Status AddDetail(const Json& json, const std::string& list, size_t number,
                       PublishedRow* row) {
  PublishedRow detail;
  const auto where = [&] { return list + "[" + std::to_string(number) + "]"; };
  if (!WalkRow(json, kCommon | kMax | kJsd, &detail)) {
    const JsonFields fields(json, where());
    ASSAY_RETURN_IF_ERROR(CheckRow(fields));
    ASSAY_RETURN_IF_ERROR(fields.Number("max_kld").status());
    ASSAY_RETURN_IF_ERROR(fields.Number("mean_jsd_bits").status());
    return Invalid(where(), "is no row");
  }
  const bool same = detail.index == row->index && detail.stratum == row->stratum &&
                    detail.source_cluster == row->source_cluster &&
                    detail.mean_kld == row->mean_kld && detail.median_kld == row->median_kld &&
                    detail.top1_agreement == row->top1_agreement;
  if (!same) return Invalid(where(), "differs from its row in per_context_all");
  row->max_kld = detail.max_kld;
  row->mean_jsd_bits = detail.mean_jsd_bits;
  return absl::OkStatus();
}

// An index that two rows have, by sorting what is not in order already.
absl::Status CheckIndices(const std::vector<PublishedRow>& rows, const std::string& list) {
  std::vector<int32_t> indices;
  for (const PublishedRow& row : rows) indices.push_back(row.index);
  if (!std::is_sorted(indices.begin(), indices.end())) std::sort(indices.begin(), indices.end());
  const auto twice = std::adjacent_find(indices.begin(), indices.end());
  if (twice == indices.end()) return absl::OkStatus();
  size_t last = rows.size() - 1;
  while (rows[last].index != *twice) --last;
  return Invalid(list + "[" + std::to_string(last) + "]",
                 "index " + std::to_string(*twice) + " appears twice");
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
  const std::string list = where + ": per_context_all", other_list = where + ": per_context";
  std::vector<PublishedRow> rows(all->size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!WalkRow((*all)[i], first_generation ? kCommon : kCommon | kPositions, &rows[i])) {
      const JsonFields entry((*all)[i], list + "[" + std::to_string(i) + "]");
      ASSAY_RETURN_IF_ERROR(CheckRow(entry));
      ASSAY_RETURN_IF_ERROR(entry.Int("positions_scored", 1, kIndexMax).status());
      return Invalid(entry.where(), "is no row");
    }
    if (first_generation) rows[i].positions = static_cast<int32_t>(each);
    if (details != nullptr) {
      ASSAY_RETURN_IF_ERROR(AddDetail((*details)[i], other_list, i, &rows[i]));
    }
  }
  ASSAY_RETURN_IF_ERROR(CheckIndices(rows, list));
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
  std::vector<std::vector<double>> groups;
  absl::flat_hash_map<std::string_view, size_t> position;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [it, fresh] = position.try_emplace(rows[i].source_cluster, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(values[i]);
  }
  BootstrapOptions options;
  options.samples = samples;
  options.seed = seed;
  options.clusters_min = 1;
  options.sum = sum;
  const BootstrapResult result = GroupedBootstrap(groups, options);
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

void AppendContextAllCanon(const PublishedRow& row, std::string* out) {
  const auto number = [out](const char* name, double value) {
    *out += name;
    *out += PythonFloat(value);
  };
  *out += R"({"index":)" + std::to_string(row.index);
  number(R"(,"mean_kld":)", row.mean_kld);
  number(R"(,"median_kld":)", row.median_kld);
  *out += R"(,"positions_scored":)" + std::to_string(row.positions);
  *out += R"(,"source_cluster":)";
  AppendPythonString(row.source_cluster, out);
  *out += R"(,"stratum":)";
  AppendPythonString(row.stratum, out);
  number(R"(,"top1_agreement":)", row.top1_agreement);
  *out += '}';
}

void AppendContextAllPretty(const PublishedRow& row, std::string* out) {
  const auto member = [out](const char* name) {
    *out += "\n      \"";
    *out += name;
    *out += "\": ";
  };
  const auto number = [&](const char* name, double value) {
    *out += ',';
    member(name);
    *out += PythonFloat(value);
  };
  *out += '{';
  member("index");
  *out += std::to_string(row.index) + ',';
  member("source_cluster");
  AppendPythonString(row.source_cluster, out);
  *out += ',';
  member("stratum");
  AppendPythonString(row.stratum, out);
  *out += ',';
  member("positions_scored");
  *out += std::to_string(row.positions);
  number("mean_kld", row.mean_kld);
  number("median_kld", row.median_kld);
  number("top1_agreement", row.top1_agreement);
  *out += "\n    }";
}

std::vector<PublishedRow> WorstPublished(const std::vector<PublishedRow>& rows, size_t count) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto end = order.begin() + static_cast<ptrdiff_t>(std::min(count, rows.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](size_t a, size_t b) {
    return rows[a].mean_kld != rows[b].mean_kld ? rows[a].mean_kld > rows[b].mean_kld : a < b;
  });
  std::vector<PublishedRow> out;
  for (auto at = order.begin(); at != end; ++at) out.push_back(rows[*at]);
  return out;
}

Json PublishedStrataJson(const std::vector<PublishedRow>& rows) {
  struct Stratum {
    int64_t contexts = 0, positions = 0;
    ExactSum means, products;
  };
  std::map<std::string_view, Stratum> strata;
  for (const PublishedRow& row : rows) {
    Stratum& stratum = strata[row.stratum];
    ++stratum.contexts;
    stratum.positions += row.positions;
    stratum.means.Add(row.mean_kld);
    stratum.products.Add(row.mean_kld * row.positions);
  }
  Json out = Json::object();
  for (const auto& [name, of] : strata) {
    out[std::string(name)] = {
        {"contexts", of.contexts},
        {"scored_positions", of.positions},
        {"macro_mean_kld", of.means.Result() / static_cast<double>(of.contexts)},
        {"token_mean_kld", of.products.Result() / static_cast<double>(of.positions)}};
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
