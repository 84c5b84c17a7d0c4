#include "storage/report/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "storage/report/fixed_sum.h"
#include "storage/report/python_random.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

std::vector<std::vector<double>> Group(const std::vector<ClusterValue>& values) {
  std::vector<std::vector<double>> groups;
  std::map<std::string, size_t> position;
  for (const ClusterValue& v : values) {
    const auto [it, fresh] = position.try_emplace(v.cluster, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(v.value);
  }
  return groups;
}

double Resample(const std::vector<std::vector<double>>& groups,
                const std::vector<uint32_t>& drawn) {
  CompensatedSum sum;
  uint64_t count = 0;
  for (const uint32_t index : drawn) {
    const auto& group = groups[index];
    for (const double value : group) sum.Add(value);
    count += group.size();
  }
  return sum.Result() / static_cast<double>(count);
}

double ResampleSums(const std::vector<uint64_t>& sizes, const std::vector<uint32_t>& drawn,
                    FixedSums* sums) {
  sums->Start();
  sums->AddEach(drawn);
  uint64_t count = 0;
  for (const uint32_t index : drawn) count += sizes[index];
  return sums->Result() / static_cast<double>(count);
}

}  // namespace

BootstrapResult ClusterBootstrap(const std::vector<ClusterValue>& values,
                                 const BootstrapOptions& options) {
  BootstrapResult out;
  const auto groups = Group(values);
  out.clusters = groups.size();
  std::vector<double> all;
  bool finite = true;
  for (const ClusterValue& v : values) {
    all.push_back(v.value);
    finite = finite && std::isfinite(v.value);
  }
  out.mean = finite ? ExactMean(all) : std::numeric_limits<double>::infinity();
  if (!finite) {
    out.refused = "a context has an infinite value";
    return out;
  }
  if (out.clusters < options.clusters_min) {
    out.refused = std::to_string(out.clusters) + " source clusters, an interval needs at least " +
                  std::to_string(options.clusters_min);
    return out;
  }
  PythonRandom random(options.seed);
  std::vector<double> means(options.samples);
  std::vector<uint32_t> drawn(groups.size());
  const auto clusters = static_cast<uint32_t>(groups.size());
  if (options.sum == BootstrapSum::kExactByCluster) {
    std::vector<double> totals;
    std::vector<uint64_t> sizes;
    for (const auto& group : groups) {
      totals.push_back(ExactSumOf(group));
      sizes.push_back(group.size());
    }
    FixedSums sums(totals);
    for (double& mean : means) {
      random.RandBelowEach(clusters, drawn);
      mean = ResampleSums(sizes, drawn, &sums);
    }
  } else {
    for (double& mean : means) {
      random.RandBelowEach(clusters, drawn);
      mean = Resample(groups, drawn);
    }
  }
  std::sort(means.begin(), means.end());
  out.samples = options.samples;
  out.ci95_low = means[static_cast<size_t>(0.025 * options.samples)];
  out.ci95_high = means[static_cast<size_t>(0.975 * options.samples) - 1];
  const double tail = 0.025 / static_cast<double>(std::max<uint64_t>(options.comparisons, 1));
  const auto cut = static_cast<size_t>(tail * options.samples);
  out.simultaneous_low = means[cut];
  out.simultaneous_high = means[means.size() - 1 - cut];
  return out;
}

Json BootstrapJson(const BootstrapResult& result, const BootstrapOptions& options) {
  Json json;
  const bool given = result.refused.empty();
  json["mean"] = std::isfinite(result.mean) ? Json(result.mean) : Json(nullptr);
  json["ci95_low"] = given ? Json(result.ci95_low) : Json(nullptr);
  json["ci95_high"] = given ? Json(result.ci95_high) : Json(nullptr);
  json["clusters"] = result.clusters;
  json["samples"] = result.samples;
  json["seed"] = options.seed;
  json["refused"] = given ? Json(nullptr) : Json(result.refused);
  return json;
}

}  // namespace assay
