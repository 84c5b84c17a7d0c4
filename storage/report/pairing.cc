#include "storage/report/pairing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "storage/base/status.h"
#include "storage/report/bootstrap.h"
#include "storage/report/comparability.h"
#include "storage/report/quantile.h"
#include "storage/report/statistics.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double ValueOrInfinity(const Json& mean) {
  return mean.at("value").is_null() ? kInfinity : mean.at("value").get<double>();
}

const Json& Head(const Json& report, const std::string& head) {
  return report.at("heads").at(head);
}

// The larger of both noise floors; 0 where none was measured.
double NoiseOf(const Json& a, const Json& b) {
  double noise = 0;
  for (const Json* report : {&a, &b}) {
    const Json& value = report->at("noise_floor").at("mean_kl_ref_cand");
    if (value.is_number()) noise = std::max(noise, value.get<double>());
  }
  return noise;
}

// Of an interval {"ci95_low","ci95_high"} around `difference`.
Json Distinguishable(const Json& interval, const Json& difference, double noise) {
  if (!interval.at("ci95_low").is_number() || !difference.is_number()) return nullptr;
  const bool excludes_zero =
      interval.at("ci95_low").get<double>() > 0 || interval.at("ci95_high").get<double>() < 0;
  return excludes_zero && std::fabs(difference.get<double>()) > noise;
}

// What makes two results comparable, said for the reasons that one option removes.
std::string WhatToDo(const Comparability& found) {
  std::string text = "; score both against the same reference on the same suite";
  for (const Incomparability& reason : found.reasons) {
    if (reason.code == "COVERAGE_DIFFERS") {
      text += ", with the same --filter, --limit and --score-from";
    }
    if (reason.code == "HEAD_MISSING") {
      text += ", and give --heads own,shared where one has no such result";
    }
  }
  return text;
}

}  // namespace

Json PairedJson(const std::vector<PairedContext>& contexts, uint64_t comparisons) {
  std::vector<ClusterValue> differences;
  std::vector<double> sorted;
  uint64_t a_wins = 0, b_wins = 0, ties = 0;
  bool finite = true;
  for (const PairedContext& c : contexts) {
    const double difference = c.a == c.b ? 0.0 : c.a - c.b;  // two infinite contexts are a tie
    differences.push_back({c.cluster, difference});
    sorted.push_back(difference);
    finite = finite && std::isfinite(c.a) && std::isfinite(c.b);
    a_wins += difference < 0;
    b_wins += difference > 0;
    ties += difference == 0;
  }
  if (!finite) {
    for (ClusterValue& value : differences) value.value = kInfinity;
  }
  std::sort(sorted.begin(), sorted.end());
  BootstrapOptions options;
  options.comparisons = std::max<uint64_t>(comparisons, 1);
  const BootstrapResult bootstrap = ClusterBootstrap(differences, options);
  Json json;
  json["contexts"] = contexts.size();
  json["difference_a_minus_b"] = FiniteJson(bootstrap.mean);
  json["median_difference"] =
      finite && !sorted.empty() ? FiniteJson(MiddleMedian(sorted)) : Json(nullptr);
  json["bootstrap_difference"] = BootstrapJson(bootstrap);
  json["a_wins"] = a_wins;
  json["b_wins"] = b_wins;
  json["ties"] = ties;
  if (comparisons > 0) {
    const bool given = bootstrap.refused.empty();
    json["simultaneous"] = {
        {"comparisons", comparisons},
        {"ci95_low", given ? Json(bootstrap.simultaneous_low) : Json(nullptr)},
        {"ci95_high", given ? Json(bootstrap.simultaneous_high) : Json(nullptr)}};
  }
  return json;
}

namespace {

absl::StatusOr<Json> Pair(const Json& a, const Json& b, const std::string& head,
                          AcrossPolicies across, uint64_t comparisons) {
  const Comparability found = CompareReports(a, b, head);
  const bool asked = across == AcrossPolicies::kAllow && found.across_policies();
  if (!found.comparable() && !asked) {
    return InvalidError("NOT_COMPARABLE",
                        "the reports cannot be paired: " + found.Text() +
                            (found.across_policies()
                                 ? "; with --across-policies they are compared all the same, and "
                                   "the result says so"
                                 : WhatToDo(found)));
  }
  const Json& rows_a = Head(a, head).at("contexts");
  const Json& rows_b = Head(b, head).at("contexts");
  std::vector<PairedContext> contexts;
  for (size_t i = 0; i < rows_a.size(); ++i) {
    contexts.push_back({rows_a[i].at("source_cluster").get<std::string>(),
                        ValueOrInfinity(rows_a[i].at("mean_kl_ref_cand")),
                        ValueOrInfinity(rows_b[i].at("mean_kl_ref_cand"))});
  }
  Json json = PairedJson(contexts, comparisons);
  const double noise = NoiseOf(a, b);
  // Copies: a member that is added moves the others.
  const Json bootstrap = json.at("bootstrap_difference");
  const Json difference = json.at("difference_a_minus_b");
  Json smallest = nullptr;
  if (bootstrap.at("refused").is_null()) {
    const double half =
        (bootstrap.at("ci95_high").get<double>() - bootstrap.at("ci95_low").get<double>()) / 2;
    smallest = std::max(half, noise);
  }
  json["distinguishable"] = Distinguishable(bootstrap, difference, noise);
  json["simultaneous"]["distinguishable"] =
      Distinguishable(json.at("simultaneous"), difference, noise);
  json["smallest_resolvable_difference"] = smallest;
  if (!found.comparable()) json["numeric_difference"] = found.NumericJson();
  return json;
}

}  // namespace

absl::StatusOr<Json> PairReports(const Json& a, const Json& b, const std::string& head,
                                 AcrossPolicies across, uint64_t comparisons) {
  try {
    return Pair(a, b, head, across, comparisons);
  } catch (const nlohmann::json::exception& error) {
    return InvalidError("REPORT_INVALID",
                        "a report to be paired has not the form of an assay-report/1: " +
                            std::string(error.what()) + "; verify both (assay verify)");
  }
}

}  // namespace assay
