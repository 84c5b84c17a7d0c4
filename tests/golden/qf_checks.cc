#include "tests/golden/qf_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "storage/base/number_format.h"
#include "storage/report/quantile.h"
#include "storage/report/tail.h"

namespace assay::golden {
namespace {

// Positions of a context whose top-1 may differ where logits are not exact in fp32.
constexpr double kFlips = 2;
// Means that torch added in its own order.
constexpr double kTorch = 1e-12;

// Our report's rows against a published report's.
void CompareRows(const QfResult& got, const Json& report, Checks* checks) {
  const Json& ours = got.head.at("contexts");
  const Json& all = report.at("per_context_all");
  checks->Equal("number of contexts", ours.size(), all.size());
  for (size_t i = 0; i < std::min(ours.size(), all.size()); ++i) {
    const Json& row = ours[i];
    const Json& theirs = report.at("per_context").at(i);
    const std::string at = "context " + theirs.at("index").dump() + " ";
    for (const char* key : {"index", "stratum", "source_cluster"}) {
      checks->Equal(at + key, row.at(key), theirs.at(key));
    }
    const auto positions = all[i].at("positions_scored").get<uint64_t>();
    checks->Equal(at + "positions", row.at("positions").get<uint64_t>(), positions);
    const auto number = [&](const char* key) { return theirs.at(key).get<double>(); };
    checks->Member("kl", row, "/mean_kl_ref_cand", number("mean_kld"), kPeerKl);
    checks->Member("kl", row, "/median_kl_ref_cand", number("median_kld"), kPeerKl);
    checks->Member("kl", row, "/max_kl_ref_cand", number("max_kld"), kPeerKl);
    checks->Member("jsd", row, "/mean_jsd_bits", number("mean_jsd_bits"), kPeerJsd);
    const double hits = std::nearbyint(number("top1_agreement") * static_cast<double>(positions));
    checks->Near("top1 hits", at + "top-1 hits",
                 row.at("/same_top1/hits"_json_pointer).get<double>(), hits,
                 got.exact ? 0 : kFlips);
  }
}

void CompareHeadline(const QfResult& got, const Json& report, Checks* checks) {
  const Json& statistics = got.head.at("statistics");
  const Json& kl = statistics.at("kl_ref_cand");
  for (const auto& [ours, theirs] : {std::pair("/mean", "token_mean_kld"),
                                     {"/p50", "token_median_kld"},
                                     {"/p95", "p95_kld"},
                                     {"/p99", "p99_kld"},
                                     {"/p999", "p999_kld"},
                                     {"/max", "max_kld"},
                                     {"/context_macro_mean", "context_macro_mean_kld"}}) {
    checks->Member("kl", kl, ours, report.at(theirs).get<double>(), kPeerKl);
  }
  checks->Member("jsd", statistics, "/jsd_bits/context_macro_mean",
                 report.at("mean_jsd_bits").get<double>(), kPeerJsd);
  const Json& interval = report.at("context_bootstrap");
  checks->Equal("clusters", kl.at("/context_bootstrap/clusters"_json_pointer),
                interval.at("clusters"));
  // Assay gives no interval of too few clusters, the peer does.
  if (kl.at("/context_bootstrap/refused"_json_pointer).is_null()) {
    for (const char* end : {"ci95_low", "ci95_high"}) {
      checks->Near("interval", end, kl.at("context_bootstrap").at(end).get<double>(),
                   interval.at(end).get<double>(), kPeerKl);
    }
  }
  const double positions = report.at("scored_positions").get<double>();
  checks->Equal("scored positions", static_cast<double>(got.arrays.positions), positions);
  if (got.exact) {
    checks->Equal("top-1 agreement", statistics.at("/agreement/same_top1/fraction"_json_pointer),
                  report.at("top1_agreement"));
  }
  for (const auto& [name, stratum] : report.at("strata").items()) {
    const Json& ours = got.head.at("strata").at(name);
    checks->Equal("contexts of " + name, ours.at("contexts"), stratum.at("contexts"));
    checks->Member("kl", ours, "/context_macro_mean_kl_ref_cand",
                   stratum.at("mean_kld").get<double>(), kPeerKl);
  }
}

// Histogram, exceedance and agreement: `want` lists the buckets that are not empty.
void CompareCounts(const Json& head, const Json& want, Checks* checks) {
  const Json& agreement = head.at("statistics").at("agreement");
  checks->Equal("top-1", agreement.at("/same_top1/fraction"_json_pointer),
                want.at("top1_agreement"));
  checks->Equal("top-1 without ties", agreement.at("/same_top1_untied/fraction"_json_pointer),
                want.at("top1_agreement_untied"));
  const auto untied = agreement.at("/same_top1_untied/positions"_json_pointer).get<int64_t>();
  checks->Equal("tied positions", want.at("positions").get<int64_t>() - untied,
                want.at("tied_positions").get<int64_t>());
  const Json& kl = head.at("statistics").at("kl_ref_cand");
  Json filled = Json::object();
  const Json& counts = kl.at("tail").at("counts");
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) filled[std::to_string(i)] = counts[i];
  }
  checks->Equal("histogram", filled, want.at("histogram"));
  for (const auto& [threshold, positions] : want.at("exceed").items()) {
    for (const Json& row : kl.at("exceedance")) {
      if (row.at("threshold").get<double>() != std::stod(threshold)) continue;
      checks->Equal("positions above " + threshold, row.at("positions"), positions);
    }
  }
}

}  // namespace

double OracleLimit(double want) { return 1e-9 + 1e-7 * std::fabs(want); }

void Checks::Near(const std::string& group, const std::string& what, double got, double want,
                  double limit) {
  const double off = std::fabs(got - want);
  double& largest = largest_[group];
  if (!(off <= largest)) largest = off;
  if (!(off <= limit)) Fail(what, PythonFloat(got), PythonFloat(want));
}

void Checks::Member(const std::string& group, const Json& got, const std::string& pointer,
                    double want, double limit) {
  const Json& value = got.at(Json::json_pointer(pointer));
  const Json& number = value.is_object() ? value.at("value") : value;
  Near(group, pointer, number.is_null() ? NAN : number.get<double>(), want, limit);
}

void Checks::Fail(const std::string& what, const std::string& got, const std::string& want) {
  if (problem_.empty()) problem_ = what + " is " + got + " instead of " + want;
}

void Checks::Look(const std::string& name) const {
  std::string line = "look " + name + ":";
  for (const auto& [group, value] : largest_) {
    char text[80];
    snprintf(text, sizeof(text), " %s %.3g", group.c_str(), value);
    line += text;
  }
  printf("%s\n", line.c_str());
}

void ComparePublished(const QfResult& got, const Json& report, Checks* checks) {
  CompareRows(got, report, checks);
  CompareHeadline(got, report, checks);
}

void CheckStoredPositions(const std::vector<double>& kl, const Json& report, Checks* checks) {
  std::vector<double> sorted = kl;
  std::sort(sorted.begin(), sorted.end());
  const Json& tail = report.at("kld_tail");
  checks->Equal("kld_tail.counts", Json(TailCounts(sorted)), tail.at("counts"));
  checks->Equal("kld_tail.min_kld", Json(sorted.front()), tail.at("min_kld"));
  checks->Equal("max_kld", Json(sorted.back()), report.at("max_kld"));
  for (const auto& [key, q] : {std::pair("token_median_kld", 0.5),
                               {"p95_kld", 0.95},
                               {"p99_kld", 0.99},
                               {"p999_kld", 0.999}}) {
    checks->Equal(key, Json(LinearQuantile(sorted, q)), report.at(key));
  }
  size_t begin = 0;
  for (size_t i = 0; i < report.at("per_context").size(); ++i) {
    const Json& row = report.at("per_context")[i];
    const auto count = report.at("per_context_all")[i].at("positions_scored").get<size_t>();
    if (begin + count > kl.size())
      return checks->Equal("stored positions", kl.size(), begin + count);
    std::vector<double> part(kl.begin() + static_cast<ptrdiff_t>(begin),
                             kl.begin() + static_cast<ptrdiff_t>(begin + count));
    std::sort(part.begin(), part.end());
    const std::string at = "context " + row.at("index").dump() + " ";
    checks->Equal(at + "median_kld", Json(LowerMedian(part)), row.at("median_kld"));
    checks->Equal(at + "max_kld", Json(part.back()), row.at("max_kld"));
    double sum = 0;
    for (const double value : part) sum += value;
    checks->Near("torch mean", at + "mean_kld", sum / static_cast<double>(count),
                 row.at("mean_kld").get<double>(), kTorch);
    begin += count;
  }
}

void CompareStatistics(const Json& head, const Json& want, double slack, Checks* checks) {
  const auto near = [&](const std::string& pointer, const Json& value) {
    checks->Member("statistics", head, pointer, value.get<double>(),
                   OracleLimit(value.get<double>()) + slack);
  };
  const std::string kl = "/statistics/kl_ref_cand/";
  for (const char* key : {"p50", "p90", "p95", "p99", "p999", "max", "min"}) {
    near(kl + key, want.at(key));
  }
  for (const auto& [pointer, key] : {std::pair("kl_ref_cand/mean", "token_mean_kld"),
                                     {"kl_ref_cand/context_macro_mean", "context_macro_mean_kld"},
                                     {"kl_cand_ref/mean", "mean_kl_rev"},
                                     {"jsd_bits/mean", "mean_jsd_bits"},
                                     {"nll_ref/mean", "mean_nll_ref"},
                                     {"nll_cand/mean", "mean_nll_cand"},
                                     {"entropy_ref/mean", "mean_entropy_ref"},
                                     {"entropy_cand/mean", "mean_entropy_cand"},
                                     {"delta_p/mean", "mean_delta_p"}}) {
    near(std::string("/statistics/") + pointer, want.at(key));
  }
  // Assay gives no interval of too few clusters.
  const Json& bootstrap = head.at("statistics").at("kl_ref_cand").at("context_bootstrap");
  for (const char* end : {"mean", "ci95_low", "ci95_high"}) {
    if (bootstrap.at("refused").is_null()) {
      near(kl + "context_bootstrap/" + end, want.at("bootstrap").at(end));
    }
  }
  for (const char* groups : {"strata", "partitions"}) {
    for (const auto& [name, value] : want.at(groups).items()) {
      near(std::string("/") + groups + "/" + name + "/mean_kl_ref_cand", value);
    }
  }
  for (size_t i = 0; i < head.at("contexts").size(); ++i) {
    const std::string index = head.at("contexts")[i].at("index").dump();
    near("/contexts/" + std::to_string(i) + "/mean_kl_ref_cand",
         want.at("context_means").at(index));
  }
  if (slack == 0) CompareCounts(head, want, checks);
}

}  // namespace assay::golden
