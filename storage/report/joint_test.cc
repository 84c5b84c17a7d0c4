// Joint statistics against numpy and Python (tests/data/statistics/joint.json), and against
// published answers (specs: fidelity-dataset 4.2, 4.4).

#include "storage/report/joint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "storage/base/files.h"
#include "storage/base/pairwise_sum.h"
#include "storage/base/status.h"
#include "storage/report/distributions.h"
#include "storage/report/numpy_random.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

const Json& Expected() {
  static const Json* const json = new Json(*ReadJsonFile(
      std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/statistics/joint.json"));
  return *json;
}

void ExpectNear(double got, double want, double relative = 4e-15) {
  EXPECT_NEAR(got, want, relative * std::fabs(want)) << want;
}

void ExpectInterval(const Interval& got, const Json& want) {
  ExpectNear(got.low, want[0].get<double>());
  ExpectNear(got.high, want[1].get<double>());
}

void ExpectBootstrap(const JointInterval& got, const Json& want) {
  ExpectNear(got.mean, want.at("mean").get<double>());
  ExpectInterval(got.percentile, want.at("percentile"));
  ExpectInterval(got.bca, want.at("bca"));
}

std::vector<JointWindow> Windows(const char* key) {
  std::vector<JointWindow> out;
  for (const Json& mean : Expected().at(key)) {
    char id[16];
    snprintf(id, sizeof(id), "final-%04zu", out.size());
    out.push_back(
        {id, out.size() % 4 == 1 ? "axis2_legal" : "axis1_general", mean.get<double>(), 2047});
  }
  return out;
}

TEST(NumpyRandom, DrawForDraw) {
  for (const auto& [seed, draws] : Expected().at("integers").items()) {
    NumpyRandom random(std::stoull(seed));
    const auto n = Expected().at("integers_below").at(seed).get<uint32_t>();
    for (const Json& draw : draws) EXPECT_EQ(random.Below(n), draw.get<uint32_t>()) << seed;
  }
  NumpyRandom published(42);  // specs 4.2
  for (const uint32_t want : {0, 7, 6, 4, 4, 8, 0, 6, 2, 0}) EXPECT_EQ(published.Below(10), want);
}

TEST(Distributions, AsPython) {
  for (const auto& [p, want] : Expected().at("normal_quantile").items()) {
    ExpectNear(NormalQuantile(std::stod(p)), want.get<double>());
  }
  for (const auto& [x, want] : Expected().at("normal_cdf").items()) {
    ExpectNear(NormalCdf(std::stod(x)), want.get<double>(), 1e-13);
  }
  for (const Json& row : Expected().at("binomial")) {
    ExpectNear(BinomialTwoSided(row[0].get<int64_t>(), row[1].get<int64_t>()), row[2].get<double>(),
               1e-11);
  }
  for (const Json& row : Expected().at("t_quantile")) {
    ExpectNear(StudentTQuantile(0.975, row[0].get<double>()), row[1].get<double>(), 1e-9);
  }
  EXPECT_NEAR(StudentTQuantile(0.975, 4), 2.776445105197793, 1e-12);
  EXPECT_NEAR(StudentTQuantile(0.025, 5), -2.570581835636314, 1e-12);
}

TEST(PairwiseSum, AsNumpy) {
  for (const Json& row : Expected().at("pairwise")) {
    std::vector<double> values;
    for (int i = 0; i < row[0].get<int>(); ++i) values.push_back(std::sin(i));
    EXPECT_EQ(PairwiseSum(values), row[1].get<double>()) << values.size();
  }
}

TEST(Joint, PublishedAnswers) {
  // Discordant counts and p-values; the exact tests of 5 of 25 and 4 of 17 windows.
  const struct {
    int64_t b, c;
    double p;
  } mcnemar[] = {{963, 1629, 5.4401494738924155e-39},
                 {1273, 2120, 8.570506392730116e-48},
                 {459, 485, 0.41582789707686263},
                 {477, 443, 0.276604916451092},
                 {525, 467, 0.07033428411109124}};
  for (const auto& row : mcnemar) ExpectNear(McNemarTest(row.b, row.c).p, row.p, 1e-12);
  ExpectNear(BinomialTwoSided(5, 25), 0.004077315330505371, 1e-13);
  ExpectNear(BinomialTwoSided(4, 17), 0.049041748046875, 1e-13);
  const double runs[] = {0.04921827142787986, 0.048747049654883516};
  ExpectNear(SigmaRun(runs), 0.00033320411112846096);
  EXPECT_EQ(McNemarTest(0, 0).p, 1);
}

TEST(Joint, AsNumpy) {
  const auto a = Expected().at("a").get<std::vector<double>>();
  ExpectBootstrap(BootstrapMean(a, kJointResamples, kJointSeed), Expected().at("bootstrap_a"));
  ExpectBootstrap(BootstrapMean(std::span(a).first(17), kJointResamples, kJointSeed),
                  Expected().at("bootstrap_17"));
  std::vector<ClusterTotal> clusters;
  for (size_t i = 0; i < Expected().at("totals").size(); ++i) {
    clusters.push_back(
        {Expected().at("totals")[i].get<double>(), Expected().at("counts")[i].get<int64_t>()});
  }
  ExpectNear(ClusteredStandardError(clusters), Expected().at("clustered_se").get<double>());
  EXPECT_EQ(DerivedSeed(kJointSeed, "axis2_legal"), Expected().at("derived_seed").get<uint64_t>());
}

TEST(Joint, ScopesAndPairs) {
  std::vector<std::string> selected;
  for (size_t i = 0; i < 17; ++i) selected.push_back(Windows("a")[i].id);
  const auto scopes = JointScopes(Windows("a"), selected);
  ASSERT_TRUE(scopes.ok()) << scopes.status();
  EXPECT_EQ(scopes->at("all").at("positions"), 25 * 2047);
  ExpectNear(scopes->at("selected").at("bca95")[0].get<double>(),
             Expected().at("bootstrap_17").at("bca")[0].get<double>());
  ExpectNear(scopes->at("scope_delta").at("absolute_nats").get<double>(),
             Expected().at("bootstrap_17").at("mean").get<double>() -
                 Expected().at("bootstrap_a").at("mean").get<double>(),
             1e-12);
  const auto paired = JointPaired(Windows("a"), Windows("b"));
  ASSERT_TRUE(paired.ok()) << paired.status();
  const Json& want = Expected().at("bootstrap_difference");
  ExpectNear(paired->at("mean_difference").get<double>(), want.at("mean").get<double>(), 1e-13);
  ExpectNear(paired->at("bca95")[1].get<double>(), want.at("bca")[1].get<double>(), 1e-12);
  ExpectNear(paired->at("percentile95")[0].get<double>(), want.at("percentile")[0].get<double>(),
             1e-12);
}

TEST(Joint, Refusals) {
  std::vector<JointWindow> windows = Windows("a");
  windows[3].positions = 5;
  EXPECT_EQ(ReasonOf(JointStatistics(windows).status()), "JOINT_INVALID");
  windows = Windows("a");
  windows[3].id = windows[4].id;
  EXPECT_EQ(ReasonOf(JointStatistics(windows).status()), "JOINT_INVALID");
  windows = Windows("a");
  EXPECT_EQ(ReasonOf(JointScopes(windows, {"none"}).status()), "JOINT_INVALID");
  std::vector<JointWindow> fewer = windows;
  fewer.pop_back();
  EXPECT_EQ(ReasonOf(JointPaired(windows, fewer).status()), "NOT_COMPARABLE");
  EXPECT_TRUE(QuantileAdmissible(0.99, 10000));
  EXPECT_FALSE(QuantileAdmissible(0.999, 51175));
}

}  // namespace
}  // namespace assay
