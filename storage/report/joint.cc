#include "storage/report/joint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/pairwise_sum.h"
#include "storage/base/status.h"
#include "storage/report/distributions.h"
#include "storage/report/numpy_random.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

absl::Status Invalid(const std::string& why) { return InvalidError("JOINT_INVALID", why); }

double Real(size_t n) { return static_cast<double>(n); }

// Sample standard deviation, ddof 1.
double Deviation(std::span<const double> values) {
  const double mean = ExactMean(values);
  ExactSum squares;
  for (const double value : values) squares.Add((value - mean) * (value - mean));
  return std::sqrt(squares.Result() / (Real(values.size()) - 1));
}

double Acceleration(std::span<const double> values) {
  const double g = Real(values.size()), sum = ExactSumOf(values);
  std::vector<double> jackknife;
  for (const double value : values) jackknife.push_back((sum - value) / (g - 1));
  const double mean = ExactMean(jackknife);
  ExactSum cubes, squares;
  for (const double j : jackknife) {
    cubes.Add((mean - j) * (mean - j) * (mean - j));
    squares.Add((mean - j) * (mean - j));
  }
  const double below = 6 * std::pow(squares.Result(), 1.5);
  return below == 0 ? 0 : cubes.Result() / below;
}

Interval Percentile(std::span<const double> sorted) {
  return {LinearQuantile(sorted, 0.025), LinearQuantile(sorted, 0.975)};
}

// Efron 1987.
Interval Bca(std::span<const double> sorted, std::span<const double> values, double observed) {
  const double b = Real(sorted.size());
  const auto below = std::lower_bound(sorted.begin(), sorted.end(), observed) - sorted.begin();
  const double share = std::clamp(static_cast<double>(below) / b, 1 / (b + 1), 1 - 1 / (b + 1));
  const double z0 = NormalQuantile(share), a = Acceleration(values);
  const auto end = [&](double alpha) {
    const double w = z0 + NormalQuantile(alpha);
    return LinearQuantile(sorted, NormalCdf(z0 + w / (1 - a * w)));
  };
  return {end(0.025), end(0.975)};
}

Json Pair(const Interval& interval) { return Json::array({interval.low, interval.high}); }

absl::Status Check(const std::vector<JointWindow>& windows) {
  if (windows.size() < 2) return Invalid("an interval needs two windows or more");
  std::set<std::string> ids;
  for (const JointWindow& window : windows) {
    if (!ids.insert(window.id).second) return Invalid("window " + window.id + " appears twice");
    if (!std::isfinite(window.mean)) return Invalid("window " + window.id + " has no finite mean");
    if (window.positions != windows.front().positions || window.positions <= 0) {
      return Invalid("windows " + windows.front().id + " and " + window.id +
                     " have different numbers of positions; their means cannot be averaged");
    }
  }
  return absl::OkStatus();
}

void SortById(std::vector<JointWindow>* windows) {
  std::sort(windows->begin(), windows->end(),
            [](const JointWindow& a, const JointWindow& b) { return a.id < b.id; });
}

std::vector<double> Means(const std::vector<JointWindow>& windows) {
  std::vector<double> out;
  for (const JointWindow& window : windows) out.push_back(window.mean);
  return out;
}

Json DomainJson(const std::string& name, const std::vector<double>& means) {
  Json out = {{"windows", means.size()},
              {"mean", ExactMean(means)},
              {"few_windows", means.size() < kJointSmall},
              {"log_t95", nullptr},
              {"bca95", nullptr}};
  if (means.size() < 2) return out;
  if (*std::min_element(means.begin(), means.end()) > 0) out["log_t95"] = Pair(LogTInterval(means));
  const uint64_t seed = DerivedSeed(kJointSeed, name);
  out["bca95"] = Pair(BootstrapMean(means, kJointDomainResamples, seed).bca);
  out["seed"] = seed;
  return out;
}

}  // namespace

double ClusteredStandardError(std::span<const ClusterTotal> clusters) {
  if (clusters.size() < 2) return 0;
  ExactSum total;
  int64_t count = 0;
  for (const ClusterTotal& cluster : clusters) {
    total.Add(cluster.total);
    count += cluster.count;
  }
  const double mean = total.Result() / static_cast<double>(count);
  ExactSum squares;
  for (const ClusterTotal& cluster : clusters) {
    const double off = cluster.total - static_cast<double>(cluster.count) * mean;
    squares.Add(off * off);
  }
  const double g = Real(clusters.size());
  return std::sqrt(g / (g - 1) * squares.Result()) / static_cast<double>(count);
}

double SigmaRun(std::span<const double> run_means) {
  return run_means.size() < 2 ? 0 : Deviation(run_means);
}

JointInterval BootstrapMean(std::span<const double> values, uint32_t resamples, uint64_t seed) {
  JointInterval out;
  out.mean = ExactMean(values);
  NumpyRandom random(seed);
  const auto g = static_cast<uint32_t>(values.size());
  std::vector<double> means(resamples), drawn(g);
  for (double& mean : means) {
    for (double& value : drawn) value = values[random.Below(g)];
    mean = PairwiseSum(drawn) / g;
  }
  std::sort(means.begin(), means.end());
  out.percentile = Percentile(means);
  out.bca = Bca(means, values, out.mean);
  return out;
}

Interval LogTInterval(std::span<const double> values) {
  const double g = Real(values.size()), mean = ExactMean(values);
  const double error = Deviation(values) / std::sqrt(g) / mean;
  const double t = StudentTQuantile(0.975, g - 1);
  return {std::exp(std::log(mean) - t * error), std::exp(std::log(mean) + t * error)};
}

uint64_t DerivedSeed(uint64_t seed, const std::string& label) {
  const DigestBytes digest = Sha256Of(label);
  uint64_t head = 0;
  for (size_t i = 0; i < 8; ++i) head = (head << 8) | digest[i];
  return seed ^ (head & 0x7fffffffu);
}

McNemar McNemarTest(int64_t b, int64_t c) {
  if (b + c == 0) return {};
  const double off = std::fabs(static_cast<double>(b - c)) - 1;
  McNemar out;
  out.chi_squared = off * off / static_cast<double>(b + c);
  out.p = ChiSquaredTail1(out.chi_squared);
  out.exact_p = BinomialTwoSided(std::min(b, c), b + c);
  return out;
}

bool QuantileAdmissible(double q, int64_t positions) {
  return static_cast<double>(positions) * (1 - q) >= kJointExceedances * (1 - 1e-9);
}

absl::StatusOr<Json> JointStatistics(std::vector<JointWindow> windows) {
  ASSAY_RETURN_IF_ERROR(Check(windows));
  SortById(&windows);
  std::vector<ClusterTotal> clusters;
  std::map<std::string, std::vector<double>> domains;
  int64_t positions = 0;
  for (const JointWindow& window : windows) {
    clusters.push_back({window.mean * static_cast<double>(window.positions), window.positions});
    positions += window.positions;
    if (!window.domain.empty()) domains[window.domain].push_back(window.mean);
  }
  const JointInterval interval = BootstrapMean(Means(windows), kJointResamples, kJointSeed);
  Json quantiles = Json::array();
  for (const auto& [name, q] :
       {std::pair("p95", 0.95), {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}}) {
    if (QuantileAdmissible(q, positions)) quantiles.push_back(name);
  }
  Json out = {{"schema", "assay-joint-statistics/1"},
              {"windows", windows.size()},
              {"positions", positions},
              {"mean", interval.mean},
              {"clustered_se", ClusteredStandardError(clusters)},
              {"percentile95", Pair(interval.percentile)},
              {"bca95", Pair(interval.bca)},
              {"samples", kJointResamples},
              {"seed", kJointSeed},
              {"admissible_quantiles", std::move(quantiles)},
              {"by_domain", Json::object()}};
  for (const auto& [name, means] : domains) out["by_domain"][name] = DomainJson(name, means);
  return out;
}

absl::StatusOr<Json> JointScopes(const std::vector<JointWindow>& windows,
                                 const std::vector<std::string>& selected) {
  std::vector<JointWindow> some;
  for (const std::string& id : selected) {
    const auto found = std::find_if(windows.begin(), windows.end(),
                                    [&](const JointWindow& window) { return window.id == id; });
    if (found == windows.end()) return Invalid("there is no window " + id);
    some.push_back(*found);
  }
  ASSAY_ASSIGN_OR_RETURN(Json all, JointStatistics(windows));
  ASSAY_ASSIGN_OR_RETURN(Json scope, JointStatistics(some));
  const double before = all.at("mean").get<double>(), after = scope.at("mean").get<double>();
  Json delta = {
      {"absolute_nats", after - before},
      {"relative_pct", before == 0 ? Json(nullptr) : Json(100 * (after - before) / before)},
      {"direction", after < before ? "down" : "up"}};
  return Json{
      {"all", std::move(all)}, {"selected", std::move(scope)}, {"scope_delta", std::move(delta)}};
}

absl::StatusOr<Json> JointPaired(std::vector<JointWindow> a, std::vector<JointWindow> b) {
  ASSAY_RETURN_IF_ERROR(Check(a));
  ASSAY_RETURN_IF_ERROR(Check(b));
  SortById(&a);
  SortById(&b);
  std::vector<double> differences;
  int64_t positive = 0, negative = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size() || a[i].id != b[i].id || a[i].positions != b[i].positions) {
      return InvalidError("NOT_COMPARABLE", "the two sides have different windows");
    }
    differences.push_back(a[i].mean - b[i].mean);
    positive += differences.back() > 0;
    negative += differences.back() < 0;
  }
  const JointInterval interval = BootstrapMean(differences, kJointPairedResamples, kJointSeed);
  const double mean_b = ExactMean(Means(b));
  // The ratio over the same draws.
  NumpyRandom random(kJointSeed);
  const auto g = static_cast<uint32_t>(a.size());
  std::vector<double> ratios, up(g), down(g);
  for (uint32_t sample = 0; sample < kJointPairedResamples; ++sample) {
    for (uint32_t i = 0; i < g; ++i) {
      const uint32_t drawn = random.Below(g);
      up[i] = a[drawn].mean;
      down[i] = b[drawn].mean;
    }
    ratios.push_back(PairwiseSum(up) / PairwiseSum(down));
  }
  const bool ratio =
      std::all_of(b.begin(), b.end(), [](const JointWindow& window) { return window.mean > 0; });
  std::sort(ratios.begin(), ratios.end());
  return Json{{"windows", g},
              {"mean_difference", interval.mean},
              {"standard_error", Deviation(differences) / std::sqrt(Real(g))},
              {"ratio_of_means", ratio ? Json(ExactMean(Means(a)) / mean_b) : Json(nullptr)},
              {"percentile95", Pair(interval.percentile)},
              {"bca95", Pair(interval.bca)},
              {"ratio_percentile95", ratio ? Pair(Percentile(ratios)) : Json(nullptr)},
              {"samples", kJointPairedResamples},
              {"seed", kJointSeed},
              {"sign_test",
               {{"positive", positive},
                {"negative", negative},
                {"p", BinomialTwoSided(positive, positive + negative)}}}};
}

}  // namespace assay
