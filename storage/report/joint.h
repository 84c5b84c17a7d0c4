// Statistics of joint measurements over windows (specs: fidelity-dataset 4.2): clustered standard
// errors, percentile and BCa intervals, per-domain intervals, McNemar and sign tests.
//
// They assume what the field assumes: windows have equal numbers of positions, and are drawn
// independently of one another.

#ifndef ASSAY_STORAGE_REPORT_JOINT_H_
#define ASSAY_STORAGE_REPORT_JOINT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

inline constexpr uint32_t kJointResamples = 5000;
inline constexpr uint32_t kJointDomainResamples = 20000;
inline constexpr uint32_t kJointPairedResamples = 2000;
inline constexpr uint64_t kJointSeed = 20260829;
inline constexpr size_t kJointSmall = 10;           // windows below which a domain is flagged
inline constexpr double kJointExceedances = 100;    // a quantile needs so many positions beyond it
inline constexpr double kJointSigmaRunShare = 0.2;  // of the standard error: above, it is quoted

struct JointWindow {
  std::string id, domain;
  double mean = 0;  // nats
  int64_t positions = 0;
};

// One cluster of positions: sum and number.
struct ClusterTotal {
  double total = 0;
  int64_t count = 0;
};

// sqrt(g / (g - 1) sum (T_c - n_c m)^2) / N, m the mean over all N positions; 0 for one cluster.
double ClusteredStandardError(std::span<const ClusterTotal> clusters);

// stdev (ddof 1) of the means of repeated runs; 0 for one run.
double SigmaRun(std::span<const double> run_means);

struct Interval {
  double low = 0, high = 0;
};

struct JointInterval {
  double mean = 0;
  Interval percentile, bca;
};

// Resamples of the mean of `values` (in the order given: windows sorted by id), each of as many
// draws by NumpyRandom(seed); at least two values.
JointInterval BootstrapMean(std::span<const double> values, uint32_t resamples, uint64_t seed);

// exp(log m -+ t se / m), se = stdev / sqrt(g): for a few windows with positive means; at least
// two.
Interval LogTInterval(std::span<const double> values);

// seed XOR (the first 8 bytes of SHA-256(label), big-endian, and 0x7fffffff).
uint64_t DerivedSeed(uint64_t seed, const std::string& label);

struct McNemar {
  double chi_squared = 0, p = 1;  // with continuity correction
  double exact_p = 1;             // binomial
};
McNemar McNemarTest(int64_t b, int64_t c);

// A quantile q of n positions may be quoted when n (1 - q) >= 100, rounding aside.
bool QuantileAdmissible(double q, int64_t positions);

// {"schema":"assay-joint-statistics/1","windows","positions","mean","clustered_se",
// "percentile95":[low,high],"bca95":[low,high],"samples","seed","admissible_quantiles",
// "by_domain":{name:{...}}}. JOINT_INVALID for fewer than two windows, windows of different numbers
// of positions, an id that appears twice or a mean that is not finite.
absl::StatusOr<Json> JointStatistics(std::vector<JointWindow> windows);

// Both scopes, all windows and `selected` ids, and how the mean moves: {"all","selected",
// "scope_delta":{"absolute_nats","relative_pct","direction"}}. JOINT_INVALID names an unknown id.
absl::StatusOr<Json> JointScopes(const std::vector<JointWindow>& windows,
                                 const std::vector<std::string>& selected);

// a minus b over the same windows: {"windows","mean_difference","standard_error","ratio_of_means",
// "percentile95","bca95","ratio_percentile95","sign_test":{"positive","negative","p"}}.
absl::StatusOr<Json> JointPaired(std::vector<JointWindow> a, std::vector<JointWindow> b);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_JOINT_H_
