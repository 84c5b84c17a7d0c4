#include "storage/report/bootstrap.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>

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

// Means of samples as exactly rounded sums of exactly rounded cluster sums. What randrange(n)
// throws away, numbers from n on, is not sorted out but stands for a cluster without values: the
// same samples, without a branch that nothing predicts.
class SummedSamples {
 public:
  SummedSamples(const std::vector<std::vector<double>>& groups, uint64_t seed)
      : random_(seed),
        clusters_(groups.size()),
        bits_(std::bit_width(groups.size())),
        tallies_(size_t{1} << bits_),
        drawn_(clusters_),
        sums_(Totals(groups, size_t{1} << bits_)) {
    for (size_t i = 0; i < clusters_; ++i) tallies_[i] = groups[i].size() << kCountBits | 1;
  }

  double Next() {
    sums_.Start();
    uint64_t count = 0;
    for (size_t missing = clusters_; missing > 0;) {
      const std::span<uint32_t> draws(drawn_.data(), missing);  // at most that many are kept
      random_.GetRandBitsEach(bits_, draws);
      sums_.AddEach(draws);
      uint64_t tally = 0;
      for (const uint32_t draw : draws) tally += tallies_[draw];
      missing -= tally & ((uint64_t{1} << kCountBits) - 1);
      count += tally >> kCountBits;
    }
    return sums_.Result() / static_cast<double>(count);
  }

 private:
  // Clusters are fewer than 2^31 and so are the values of a sample's draws.
  static constexpr int kCountBits = 32;

  static std::vector<double> Totals(const std::vector<std::vector<double>>& groups, size_t size) {
    std::vector<double> totals;
    for (const auto& group : groups) totals.push_back(ExactSumOf(group));
    totals.resize(size);
    return totals;
  }

  PythonRandom random_;
  const size_t clusters_;
  const int bits_;
  std::vector<uint64_t> tallies_;  // by number drawn: values in its high half, 1 if a cluster
  std::vector<uint32_t> drawn_;
  FixedSums sums_;
};

std::vector<double> SampleMeans(const std::vector<std::vector<double>>& groups,
                                const BootstrapOptions& options) {
  std::vector<double> means(options.samples);
  if (options.sum == BootstrapSum::kExactByCluster) {
    SummedSamples samples(groups, options.seed);
    for (double& mean : means) mean = samples.Next();
    return means;
  }
  PythonRandom random(options.seed);
  std::vector<uint32_t> drawn(groups.size());
  for (double& mean : means) {
    random.RandBelowEach(static_cast<uint32_t>(groups.size()), drawn);
    mean = Resample(groups, drawn);
  }
  return means;
}

}  // namespace

BootstrapResult ClusterBootstrap(const std::vector<ClusterValue>& values,
                                 const BootstrapOptions& options) {
  return GroupedBootstrap(Group(values), options);
}

BootstrapResult GroupedBootstrap(const std::vector<std::vector<double>>& groups,
                                 const BootstrapOptions& options) {
  BootstrapResult out;
  out.clusters = groups.size();
  ExactSum all;
  uint64_t values = 0;
  bool finite = true;
  for (const auto& group : groups) {
    values += group.size();
    for (const double value : group) {
      finite = finite && std::isfinite(value);
      if (finite) all.Add(value);
    }
  }
  out.mean = !finite       ? std::numeric_limits<double>::infinity()
             : values == 0 ? 0
                           : all.Result() / static_cast<double>(values);
  if (!finite) {
    out.refused = "a context has an infinite value";
    return out;
  }
  if (out.clusters < options.clusters_min) {
    out.refused = std::to_string(out.clusters) + " source clusters, an interval needs at least " +
                  std::to_string(options.clusters_min);
    return out;
  }
  std::vector<double> means = SampleMeans(groups, options);
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
