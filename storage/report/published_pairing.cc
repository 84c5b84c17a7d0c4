// qwen38-fidelity-paired/3.

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/published_report.h"
#include "storage/report/published_rows.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr size_t kAdvantages = 10;
constexpr uint64_t kSeed = 1;

absl::Status NotComparable(const std::string& why) {
  return InvalidError("NOT_COMPARABLE", "the reports cannot be paired: " + why);
}

absl::StatusOr<std::vector<PublishedRow>> SortedRows(const PublishedSide& side) {
  ASSAY_ASSIGN_OR_RETURN(std::vector<PublishedRow> rows, ReadPublishedRows(side.report, side.path));
  std::sort(rows.begin(), rows.end(),
            [](const PublishedRow& a, const PublishedRow& b) { return a.index < b.index; });
  return rows;
}

// First scored position; reports from before windows existed scored every one.
Json ScoreFrom(const Json& report) {
  const auto window = report.find("scored_position_window");
  return window == report.end() || !window->is_object() ? Json(0)
                                                        : window->value("score_from", Json());
}

absl::Status CheckComparable(const PublishedSide& a, const PublishedSide& b,
                             const std::vector<PublishedRow>& rows_a,
                             const std::vector<PublishedRow>& rows_b) {
  for (const char* key : {"suite_token_sha256", "filter", "head_sha256"}) {
    if (a.report.value(key, Json()) == b.report.value(key, Json())) continue;
    return NotComparable(std::string(key) + " differs");
  }
  if (ScoreFrom(a.report) != ScoreFrom(b.report)) {
    return NotComparable("they score different positions of their contexts");
  }
  if (rows_a.size() != rows_b.size()) return NotComparable("they cover different contexts");
  for (size_t i = 0; i < rows_a.size(); ++i) {
    if (rows_a[i].index != rows_b[i].index || rows_a[i].positions != rows_b[i].positions) {
      return NotComparable("they cover different contexts");
    }
    if (rows_a[i].source_cluster != rows_b[i].source_cluster) {
      return NotComparable("context " + std::to_string(rows_a[i].index) +
                           " has different source clusters");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> SideJson(const PublishedSide& side) {
  const JsonFields fields(side.report, side.path);
  ASSAY_ASSIGN_OR_RETURN(const double mean, fields.Number("context_macro_mean_kld"));
  return Json{{"report", side.path},
              {"label", side.label.empty() ? Json(nullptr) : Json(side.label)},
              {"mean", mean}};
}

// [[index, difference], ...]: the smallest or largest differences, equal ones by index.
Json Advantages(const std::vector<PublishedRow>& rows, const std::vector<double>& differences,
                bool smallest) {
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return smallest ? differences[a] < differences[b] : differences[a] > differences[b];
  });
  if (order.size() > kAdvantages) order.resize(kAdvantages);
  Json out = Json::array();
  for (const size_t i : order) {
    Json pair = Json::array();
    pair.push_back(rows[i].index);
    pair.push_back(differences[i]);
    out.push_back(std::move(pair));
  }
  return out;
}

}  // namespace

absl::StatusOr<Json> PairPublishedReports(const PublishedSide& a, const PublishedSide& b,
                                          uint32_t samples) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PublishedRow> rows, SortedRows(a));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PublishedRow> others, SortedRows(b));
  ASSAY_RETURN_IF_ERROR(CheckComparable(a, b, rows, others));
  std::vector<double> differences;
  int64_t a_wins = 0, b_wins = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    differences.push_back(rows[i].mean_kld - others[i].mean_kld);
    a_wins += differences.back() < 0;
    b_wins += differences.back() > 0;
  }
  std::vector<double> sorted = differences;
  std::sort(sorted.begin(), sorted.end());
  Json out;
  out["schema"] = "qwen38-fidelity-paired/3";
  for (const char* key : {"suite_token_sha256", "filter", "head_sha256"}) {
    out[key] = a.report.value(key, Json());
  }
  ASSAY_ASSIGN_OR_RETURN(out["a"], SideJson(a));
  ASSAY_ASSIGN_OR_RETURN(out["b"], SideJson(b));
  out["contexts"] = rows.size();
  out["difference_a_minus_b"] = ExactMean(differences);
  out["median_difference"] = MiddleMedian(sorted);
  out["bootstrap_difference"] =
      PublishedBootstrapJson(rows, differences, samples, kSeed, BootstrapSum::kCompensated);
  out["a_wins"] = a_wins;
  out["b_wins"] = b_wins;
  out["ties"] = static_cast<int64_t>(rows.size()) - a_wins - b_wins;
  out["largest_a_advantage"] = Advantages(rows, differences, true);
  out["largest_b_advantage"] = Advantages(rows, differences, false);
  return out;
}

}  // namespace assay
