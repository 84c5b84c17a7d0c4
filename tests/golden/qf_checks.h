// Comparisons of kind "qf".

#ifndef ASSAY_TESTS_GOLDEN_QF_CHECKS_H_
#define ASSAY_TESTS_GOLDEN_QF_CHECKS_H_

#include <map>
#include <string>
#include <vector>

#include "storage/base/json.h"
#include "tests/golden/qf.h"

namespace assay::golden {

// What the fixture's README promises of the peer's values, which are float32 sums: nats, bits.
inline constexpr double kPeerKl = 3e-6, kPeerJsd = 2e-7;

// And of the oracle's.
double OracleLimit(double want);

// Collects the first problem and, by group, the largest deviation.
class Checks {
 public:
  void Near(const std::string& group, const std::string& what, double got, double want,
            double limit);
  template <typename T>
  void Equal(const std::string& what, const T& got, const T& want) {
    if (got != want) Fail(what, Json(got).dump(), Json(want).dump());
  }
  // A number of the product's report: {"value"} or plain.
  void Member(const std::string& group, const Json& got, const std::string& pointer, double want,
              double limit);
  void Fail(const std::string& what, const std::string& got, const std::string& want);
  const std::string& problem() const { return problem_; }  // "" = none
  void Look(const std::string& name) const;                // prints the deviations

 private:
  std::map<std::string, double> largest_;
  std::string problem_;
};

// Context rows and headline of a published report.
void ComparePublished(const QfResult& got, const Json& report, Checks* checks);

// That a published report's histogram, quantiles and rows are those of `kl`, its stored positions:
// exactly, means excepted, which torch added in an order of its own.
void CheckStoredPositions(const std::vector<double>& kl, const Json& report, Checks* checks);

// `want`: one entry of oracle/stats.json. `head`: heads.HEAD of the product's report. With `slack`
// (nats, bits) numbers may be off by that much more and counts are not compared: for logits that
// are rounded after sums which are not exact, where another order of additions may round otherwise.
void CompareStatistics(const Json& head, const Json& want, double slack, Checks* checks);

}  // namespace assay::golden

#endif  // ASSAY_TESTS_GOLDEN_QF_CHECKS_H_
