// qwen38-fidelity-paired/1 to /3.

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/comparability.h"
#include "storage/report/published_report.h"
#include "storage/report/published_rows.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr size_t kAdvantages = 10;
constexpr uint64_t kSeed = 1;

absl::StatusOr<std::vector<PublishedRow>> SortedRows(const PublishedSide& side) {
  ASSAY_ASSIGN_OR_RETURN(std::vector<PublishedRow> rows, ReadPublishedRows(side.report, side.path));
  std::sort(rows.begin(), rows.end(),
            [](const PublishedRow& a, const PublishedRow& b) { return a.index < b.index; });
  return rows;
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
                                          const PublishedPairOptions& options) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PublishedRow> rows, SortedRows(a));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PublishedRow> others, SortedRows(b));
  for (const PublishedSide* side : {&a, &b}) {
    if (PublishedSchemaOf(side->report).Is("fidelity-report")) continue;
    return InvalidError("REPORT_INVALID", side->path + ": no published replay report");
  }
  const Comparability found = ComparePublished(a.report, b.report, PublishedUse::kPair);
  const bool asked = options.across_comparators && found.across_policies();
  if ((!found.comparable() && !asked) || rows.size() != others.size()) {
    return InvalidError("NOT_COMPARABLE", "the reports cannot be paired: " + found.Text());
  }
  std::vector<double> differences;
  int64_t a_wins = 0, b_wins = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    differences.push_back(rows[i].mean_kld - others[i].mean_kld);
    a_wins += differences.back() < 0;
    b_wins += differences.back() > 0;
  }
  std::vector<double> sorted = differences;
  std::sort(sorted.begin(), sorted.end());
  const auto contexts = static_cast<int64_t>(rows.size());
  Json out;
  out["schema"] = PublishedSchemaOf(a.report).Sibling("fidelity-paired", options.generation);
  if (options.generation > 1) {
    for (const char* key : {"suite_token_sha256", "filter", "head_sha256"}) {
      out[key] = a.report.value(key, Json());
    }
  }
  ASSAY_ASSIGN_OR_RETURN(out["a"], SideJson(a));
  ASSAY_ASSIGN_OR_RETURN(out["b"], SideJson(b));
  out["contexts"] = contexts;
  out["difference_a_minus_b"] = ExactMean(differences);
  out["median_difference"] = MiddleMedian(sorted);
  out["bootstrap_difference"] =
      PublishedBootstrapJson(rows, differences, options.samples, kSeed, BootstrapSum::kCompensated);
  out["a_wins"] = a_wins;
  out["b_wins"] = options.generation > 2 ? b_wins : contexts - a_wins;
  if (options.generation > 2) out["ties"] = contexts - a_wins - b_wins;
  out["largest_a_advantage"] = Advantages(rows, differences, true);
  out["largest_b_advantage"] = Advantages(rows, differences, false);
  return out;
}

}  // namespace assay
