// Published receipts, when they are at hand: intervals and means must come out exactly.

#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/report/bootstrap.h"
#include "storage/report/pairing.h"
#include "storage/report/tail.h"

namespace assay {
namespace {

class Published : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/../shared/data/published-receipts";
    if (!IsDirectory(folder_)) GTEST_SKIP() << "no published receipts beside the source";
  }
  Json Read(const std::string& name) {
    auto json = ReadJsonFile(JoinPath(folder_, name));
    EXPECT_TRUE(json.ok()) << json.status();
    return *json;
  }
  static std::vector<ClusterValue> Rows(const Json& report) {
    std::vector<ClusterValue> out;
    for (const Json& row : report.at("per_context")) {
      out.push_back({row.at("source_cluster"), row.at("mean_kld")});
    }
    return out;
  }
  std::string folder_;
};

TEST_F(Published, BootstrapIntervals) {
  // The second one tells the compensated sum from both other sums.
  for (const char* name : {"shortlist-report-turbo6.json", "kld5-window-k5k6-from256.json",
                           "v3-report-hyd.json", "v3-report-v2-analysis.json"}) {
    const Json report = Read(name);
    const BootstrapResult result = ClusterBootstrap(Rows(report));
    const Json& expected = report.at("context_bootstrap");
    EXPECT_EQ(result.mean, expected.at("mean").get<double>()) << name;
    EXPECT_EQ(result.mean, report.at("context_macro_mean_kld").get<double>()) << name;
    EXPECT_EQ(result.ci95_low, expected.at("ci95_low").get<double>()) << name;
    EXPECT_EQ(result.ci95_high, expected.at("ci95_high").get<double>()) << name;
    EXPECT_EQ(result.clusters, expected.at("clusters").get<uint64_t>()) << name;
  }
}

TEST_F(Published, AnotherSeedOverFewerContexts) {  // INDEX.md, row 7
  std::vector<ClusterValue> rows;
  for (const ClusterValue& row : Rows(Read("v3-report-hyd.json"))) {
    if (row.cluster != "pg4300" && row.cluster != "cpython-v3.12.8-0060") rows.push_back(row);
  }
  BootstrapOptions options;
  options.seed = 20260815;
  const BootstrapResult result = ClusterBootstrap(rows, options);
  EXPECT_EQ(rows.size(), 127u);
  EXPECT_EQ(result.mean, 0.007172033855778145);
  EXPECT_EQ(result.ci95_low, 0.005191769435117302);
  EXPECT_EQ(result.ci95_high, 0.009655676953427048);
}

TEST_F(Published, PairedDifference) {
  const Json a = Read("v3-report-hyd.json"), b = Read("v3-report-v2-analysis.json");
  std::vector<PairedContext> contexts;
  for (size_t i = 0; i < a.at("per_context").size(); ++i) {
    const Json& x = a.at("per_context")[i];
    const Json& y = b.at("per_context")[i];
    ASSERT_EQ(x.at("index"), y.at("index"));
    contexts.push_back({x.at("source_cluster"), x.at("mean_kld"), y.at("mean_kld")});
  }
  const Json paired = PairedJson(contexts);
  EXPECT_EQ(paired.at("difference_a_minus_b"), -0.0007505288431159673);
  EXPECT_EQ(paired.at("median_difference"), -0.0005155250890525901);
  EXPECT_EQ(paired.at("bootstrap_difference").at("ci95_low"), -0.0009765818751797466);
  EXPECT_EQ(paired.at("bootstrap_difference").at("ci95_high"), -0.0005718426978159119);
  EXPECT_EQ(paired.at("a_wins"), 124);
  EXPECT_EQ(paired.at("b_wins"), 12);
}

TEST_F(Published, TailEdges) {
  const Json edges = Read("shortlist-report-turbo6.json").at("kld_tail").at("bin_edges");
  ASSERT_EQ(edges.size(), TailEdges().size());
  for (size_t i = 0; i < edges.size(); ++i) EXPECT_EQ(TailEdges()[i], edges[i].get<double>()) << i;
}

}  // namespace
}  // namespace assay
