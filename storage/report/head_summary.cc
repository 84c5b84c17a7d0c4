#include "storage/report/head_summary.h"

#include <cmath>
#include <limits>
#include <vector>

#include "storage/report/bootstrap.h"
#include "storage/report/statistics.h"

namespace assay {
namespace {

double ValueOrInfinity(const Json& mean) {
  return mean.at("value").is_null() ? std::numeric_limits<double>::infinity()
                                    : mean.at("value").get<double>();
}

double RatioOfNll(const Json& cand, const Json& ref) {
  const double a = ValueOrInfinity(cand), b = ValueOrInfinity(ref);
  return std::isfinite(a) && std::isfinite(b) ? a - b : std::numeric_limits<double>::infinity();
}

}  // namespace

Json LnPerplexityRatioJson(const Json& head_entry) {
  const Json& statistics = head_entry.at("statistics");
  const double mean =
      RatioOfNll(statistics.at("nll_cand").at("mean"), statistics.at("nll_ref").at("mean"));
  std::vector<ClusterValue> values;
  for (const Json& row : head_entry.at("contexts")) {
    values.push_back({row.at("source_cluster").get<std::string>(),
                      RatioOfNll(row.at("mean_nll_cand"), row.at("mean_nll_ref"))});
  }
  // Extended precision rounds to the same double with every C library (statistics.cc).
  const auto ratio = static_cast<double>(std::exp(static_cast<long double>(mean)));
  return {{"mean", FiniteJson(mean)},
          {"context_bootstrap", BootstrapJson(ClusterBootstrap(values))},
          {"ratio", FiniteJson(ratio)}};
}

Json HeadSummaryJson(const Json& report, const std::string& head) {
  const Json& entry = report.at("heads").at(head);
  const Json& statistics = entry.at("statistics");
  const Json& kl = statistics.at("kl_ref_cand");
  const Json& agreement = statistics.at("agreement");
  Json json;
  json["description"] = entry.at("description");
  json["mean_kl_ref_cand"] = kl.at("mean");
  json["context_bootstrap"] = kl.at("context_bootstrap");
  for (const char* key : {"p50", "p99", "p999", "max"}) {
    json[std::string(key) + "_kl_ref_cand"] = kl.at(key);
  }
  json["mean_kl_cand_ref"] = statistics.at("kl_cand_ref").at("mean");
  json["mean_jsd_bits"] = statistics.at("jsd_bits").at("mean");
  json["mean_accept_rate"] = statistics.at("accept_rate").at("mean");
  json["mean_delta_p"] = statistics.at("delta_p").at("mean");
  json["rms_delta_p"] = statistics.at("delta_p").at("rms");
  for (const char* key :
       {"same_top1", "ref_top1_in_cand_top1", "ref_top1_in_cand_top5", "ref_top1_in_cand_top10"}) {
    json[key] = agreement.at(key);
  }
  json["perplexity_ref"] = statistics.at("nll_ref").at("perplexity");
  json["perplexity_cand"] = statistics.at("nll_cand").at("perplexity");
  json["ln_perplexity_ratio"] = LnPerplexityRatioJson(entry);
  json["strata"] = Json::object();
  for (const auto& [stratum, group] : entry.at("strata").items()) {
    json["strata"][stratum] = {{"mean_kl_ref_cand", group.at("mean_kl_ref_cand")},
                               {"same_top1", group.at("same_top1")}};
  }
  json["worst_contexts"] = entry.at("worst_contexts");
  json["smallest_resolvable_difference"] =
      report.at("smallest_resolvable_difference").at(head).at("value");
  return json;
}

}  // namespace assay
