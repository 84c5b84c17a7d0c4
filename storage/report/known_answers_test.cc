// Statistics of the known-answer arrays against known-answers/summary.json, exactly.

#include <gtest/gtest.h>

#include "storage/report/bootstrap.h"
#include "storage/report/pairing.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

class KnownAnswers : public ::testing::TestWithParam<std::string> {
 protected:
  static Json Expected() {
    return Must(ReadJsonFile(SmolDir() + "/known-answers/summary.json"))
        .at("forwards")
        .at("oracle64");
  }
};

double Value(const Json& mean) {
  EXPECT_EQ(mean.at("infinite_count"), 0);
  return mean.at("value").get<double>();
}

void ExpectGroup(const Json& actual, const Json& expected) {
  EXPECT_EQ(actual.at("contexts"), expected.at("contexts"));
  EXPECT_EQ(Value(actual.at("context_macro_mean_kl_ref_cand")), expected.at("mean_kld"));
  EXPECT_EQ(actual.at("p50_kl_ref_cand"), expected.at("median_kld"));
  EXPECT_EQ(actual.at("p99_kl_ref_cand"), expected.at("p99_kld"));
  EXPECT_EQ(actual.at("same_top1").at("fraction"), expected.at("top1_agreement"));
}

TEST_P(KnownAnswers, WholeReport) {
  const Json report = Must(BuildReport(SmolInputs(GetParam())));
  const Json all = Expected();
  const Json& expected = all.at("candidates").at(GetParam());
  const Json& head = report.at("heads").at("own");
  const Json& statistics = head.at("statistics");
  const Json& kl = statistics.at("kl_ref_cand");
  EXPECT_EQ(Value(kl.at("mean")), expected.at("token_mean_kld"));
  EXPECT_EQ(kl.at("p50"), expected.at("p50_kld"));
  EXPECT_EQ(kl.at("p90"), expected.at("p90_kld"));
  EXPECT_EQ(kl.at("p95"), expected.at("p95_kld"));
  EXPECT_EQ(kl.at("p99"), expected.at("p99_kld"));
  EXPECT_EQ(kl.at("p999"), expected.at("p999_kld"));
  EXPECT_EQ(kl.at("max"), expected.at("max_kld"));
  const Json& bootstrap = expected.at("context_bootstrap");
  for (const char* key : {"mean", "ci95_low", "ci95_high", "clusters", "samples"}) {
    EXPECT_EQ(kl.at("context_bootstrap").at(key), bootstrap.at(key)) << key;
  }
  EXPECT_EQ(Value(statistics.at("kl_cand_ref").at("mean")), expected.at("token_mean_kld_reverse"));
  EXPECT_EQ(Value(statistics.at("jsd_bits").at("mean")), expected.at("mean_jsd_bits"));
  EXPECT_EQ(Value(statistics.at("nll_ref").at("mean")), expected.at("mean_nll_ref"));
  EXPECT_EQ(Value(statistics.at("nll_cand").at("mean")), expected.at("mean_nll_cand"));
  EXPECT_EQ(Value(statistics.at("entropy_ref").at("mean")), expected.at("mean_entropy_ref"));
  EXPECT_EQ(Value(statistics.at("delta_p").at("mean")), expected.at("mean_delta_p"));
  const Json& same = statistics.at("agreement").at("same_top1");
  EXPECT_EQ(same.at("hits"), expected.at("top1_hits"));
  EXPECT_EQ(same.at("fraction"), expected.at("top1_agreement"));
  for (const char* group : {"strata", "partitions"}) {
    ASSERT_EQ(head.at(group).size(), expected.at(group).size());
    for (const auto& [name, value] : expected.at(group).items()) {
      ExpectGroup(head.at(group).at(name), value);
    }
  }
}

TEST_P(KnownAnswers, Rows) {
  const Json report = Must(BuildReport(SmolInputs(GetParam())));
  const Json all = Expected();
  const Json& expected = all.at("candidates").at(GetParam()).at("per_context");
  const Json& rows = report.at("heads").at("own").at("contexts");
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("index"), expected[i].at("index"));
    EXPECT_EQ(Value(rows[i].at("mean_kl_ref_cand")), expected[i].at("mean_kld"));
    EXPECT_EQ(rows[i].at("median_kl_ref_cand"), expected[i].at("median_kld"));
    EXPECT_EQ(rows[i].at("max_kl_ref_cand"), expected[i].at("max_kld"));
    EXPECT_EQ(Value(rows[i].at("mean_jsd_bits")), expected[i].at("mean_jsd_bits"));
    EXPECT_EQ(rows[i].at("same_top1").at("fraction"), expected[i].at("top1_agreement"));
  }
  // Worst first.
  double previous = 1e9;
  for (const Json& index : report.at("heads").at("own").at("worst_contexts")) {
    const double mean = Value(rows[index.get<size_t>()].at("mean_kl_ref_cand"));
    EXPECT_LE(mean, previous);
    previous = mean;
  }
}

INSTANTIATE_TEST_SUITE_P(Candidates, KnownAnswers,
                         ::testing::Values("int8-channel", "int4-g32", "q4_0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(KnownPairs, DifferencesIntervalsAndWins) {
  const Json paired = Must(ReadJsonFile(SmolDir() + "/known-answers/summary.json"))
                          .at("forwards")
                          .at("oracle64")
                          .at("paired");
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"int8-channel", "int4-g32"}, {"int4-g32", "q4_0"}, {"int8-channel", "q4_0"}};
  for (const auto& [a, b] : pairs) {
    const Json actual = Must(
        PairReports(Must(BuildReport(SmolInputs(a))), Must(BuildReport(SmolInputs(b))), "own"));
    const Json& expected = paired.at(a + "_vs_" + b);
    for (const char* key :
         {"difference_a_minus_b", "median_difference", "a_wins", "b_wins", "ties"}) {
      EXPECT_EQ(actual.at(key), expected.at(key)) << a << " " << b << " " << key;
    }
    for (const char* key : {"ci95_low", "ci95_high", "clusters"}) {
      EXPECT_EQ(actual.at("bootstrap_difference").at(key),
                expected.at("bootstrap_difference").at(key));
    }
  }
}

// Every context of the fixture has a source of its own; here sources have up to seven contexts. The
// values are exact in binary, so that no way of adding matters; the interval is what Python's
// random.Random(1).randrange gives.
TEST(Bootstrap, DrawsWholeClusters) {
  const std::vector<int> clusters = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 1, 2, 0, 3, 0, 1, 0};
  std::vector<ClusterValue> values;
  for (size_t i = 0; i < clusters.size(); ++i) {
    const auto level = static_cast<double>(clusters[i] * 7 % 9 * 4);
    values.push_back(
        {"source-" + std::to_string(clusters[i]), (level + static_cast<double>(i % 3)) / 64});
  }
  const BootstrapResult result = ClusterBootstrap(values);
  EXPECT_EQ(result.clusters, 9u);
  EXPECT_EQ(result.mean, 0.21796875);
  EXPECT_EQ(result.ci95_low, 0.08385416666666666);
  EXPECT_EQ(result.ci95_high, 0.3880208333333333);
}

TEST(Bootstrap, RefusedBelowEightClusters) {
  ReportInputs inputs = SmolInputs("int4-g32");
  std::vector<ClusterValue> six, eight;
  for (const ReportContext& context : inputs.contexts) {
    eight.push_back({context.source_cluster, 1.0});
    if (context.partition == "analysis") six.push_back({context.source_cluster, 1.0});
  }
  ASSERT_EQ(six.size(), 6u);
  const BootstrapResult refused = ClusterBootstrap(six);
  EXPECT_NE(refused.refused.find("6 source clusters"), std::string::npos) << refused.refused;
  const Json json = BootstrapJson(refused);
  EXPECT_TRUE(json.at("ci95_low").is_null());
  EXPECT_TRUE(json.at("ci95_high").is_null());
  EXPECT_TRUE(json.at("refused").is_string());
  EXPECT_EQ(json.at("mean"), 1.0);
  EXPECT_EQ(ClusterBootstrap(eight).refused, "");
}

}  // namespace
}  // namespace assay
