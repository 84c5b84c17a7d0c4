// Source-cluster bootstrap of a mean over contexts (qwen-suites 3.6).
//
// Contexts of one document are not independent, so documents (source clusters) are what is drawn.

#ifndef ASSAY_STORAGE_REPORT_BOOTSTRAP_H_
#define ASSAY_STORAGE_REPORT_BOOTSTRAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay {

// Below this many clusters a percentile interval is narrower than it should be by more than it is
// worth, so none is given.
inline constexpr uint64_t kBootstrapClustersMin = 8;

// How a sample's values are added: one after the other with compensation (reports and their
// pairing), or as exactly rounded sums of exactly rounded cluster sums (cumulative receipts,
// qwen-suites 4.2). The two differ in the last digits only.
enum class BootstrapSum { kCompensated, kExactByCluster };

struct BootstrapOptions {
  uint64_t seed = 1;
  uint32_t samples = 10000;
  uint64_t clusters_min = kBootstrapClustersMin;
  BootstrapSum sum = BootstrapSum::kCompensated;
  // How many intervals are looked at together, for the simultaneous one.
  uint64_t comparisons = 1;
};

struct ClusterValue {
  std::string cluster;
  double value = 0;
};

struct BootstrapResult {
  double mean = 0;  // exactly rounded mean of the values
  double ci95_low = 0, ci95_high = 0;
  // The interval of one among options.comparisons that hold together at 95 % (Bonferroni: each end
  // cuts off 0.025 / comparisons). Beyond 250 comparisons of 10,000 samples it is the whole range.
  double simultaneous_low = 0, simultaneous_high = 0;
  uint64_t clusters = 0;
  uint32_t samples = 0;
  std::string refused;  // why there is no interval; empty when there is one
};

// Values in processing order; cluster order is that of first appearance. Each sample draws K of K
// clusters with replacement and takes the mean over all their values; the
// interval runs from sorted sample trunc(0.025 S) to trunc(0.975 S) - 1. Refused, with the reason,
// below clusters_min clusters and for infinite values.
BootstrapResult ClusterBootstrap(const std::vector<ClusterValue>& values,
                                 const BootstrapOptions& options = {});

// The same of values that are grouped already, clusters in their order.
BootstrapResult GroupedBootstrap(const std::vector<std::vector<double>>& groups,
                                 const BootstrapOptions& options = {});

// {"mean","ci95_low","ci95_high","clusters","samples","seed","refused"}; the ends are null and
// "refused" is a sentence when there is no interval, else null.
Json BootstrapJson(const BootstrapResult& result, const BootstrapOptions& options = {});

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_BOOTSTRAP_H_
