// Mean KLD by stratum, with intervals.

#include <limits>

#include "client/html/candidate_page.h"
#include "client/html/numbers.h"
#include "client/html/page.h"
#include "storage/report/bootstrap.h"

namespace assay {
namespace {

// As the headline's interval: documents are drawn, of this stratum only.
Json StratumBootstrap(const Json& contexts, const std::string& stratum) {
  std::vector<ClusterValue> values;
  for (const Json& context : contexts) {
    if (context.at("stratum") != stratum) continue;
    const Json& mean = context.at("mean_kl_ref_cand").at("value");
    values.push_back(
        {context.at("source_cluster").get<std::string>(),
         mean.is_number() ? mean.get<double>() : std::numeric_limits<double>::infinity()});
  }
  return BootstrapJson(ClusterBootstrap(values));
}

}  // namespace

std::string StrataFigureHtml(const Json& entry, const std::string& head, Json* data) {
  Json strata = Json::array();
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const std::string& name, const Json& group, const Json& bootstrap) {
    const Json& mean = group.at("mean_kl_ref_cand");
    strata.push_back({{"high", Field(bootstrap, {"ci95_high"})},
                      {"low", Field(bootstrap, {"ci95_low"})},
                      {"mean", mean.at("value")},
                      {"name", name}});
    rows.push_back({Txt(name), MeanOf(mean), Txt(IntervalCell(bootstrap)),
                    Num(group.at("p50_kl_ref_cand")), Num(group.at("p99_kl_ref_cand")),
                    Num(group.at("max_kl_ref_cand")), FractionOf(group.at("same_top1")),
                    Count(group.at("contexts")), Count(group.at("positions"))});
  };
  for (const auto& [name, group] : entry.at("strata").items()) {
    add(name, group, StratumBootstrap(entry.at("contexts"), name));
  }
  (*data)["strata"] = std::move(strata);
  const Json& kl = entry.at("statistics").at("kl_ref_cand");
  (*data)["overall"] = {{"high", kl.at("context_bootstrap").at("ci95_high")},
                        {"low", kl.at("context_bootstrap").at("ci95_low")},
                        {"mean", kl.at("mean").at("value")}};
  return FigureHtml({"strata", head, "Mean KLD of each stratum",
                     "Dot: mean over positions. Bar: 95 % interval of the mean, documents drawn "
                     "with replacement; none below "
                     "eight documents. The band is the interval over all strata.",
                     TableHtml("Strata",
                               {{"Stratum"},
                                {"Mean KLD (nats)", true},
                                {"95 % interval"},
                                {"Median KLD", true},
                                {"99 % KLD", true},
                                {"Max KLD", true},
                                {"Same top (%)", true},
                                {"Contexts", true},
                                {"Positions", true}},
                               rows, true)});
}

}  // namespace assay
