// Published reports, comparisons and receipts computed again from their rows: the same bytes.

#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_report.h"
#include "storage/report/published_rows.h"

namespace assay {
namespace {

std::string Folder() {
  return std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/metric/qf";
}
std::string Bytes(const std::string& path) { return *ReadFile(JoinPath(Folder(), path), 1 << 24); }
Json Read(const std::string& path) { return *ParseJson(Bytes(path), path); }

TEST(PublishedForms, ReportsAreTheirRows) {
  int reports = 0;
  const auto names = ListDirectory(JoinPath(Folder(), "reports"));
  ASSERT_TRUE(names.ok()) << names.status();
  for (const std::string& name : *names) {
    const std::string path = "reports/" + name;
    const Json report = Read(path);
    if (report.at("schema").get<std::string>().rfind("qwen38-fidelity-report/", 0) != 0) continue;
    const auto again = RecomputePublishedReport(report, path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(PythonPrettyJson(*again), Bytes(path)) << path;
    ++reports;
  }
  EXPECT_GE(reports, 10);
}

// Every derived member counts: a changed one is put right again or refused.
TEST(PublishedForms, AChangedAggregateDoesNotSurvive) {
  const std::string path = "reports/a-from16.json";
  const Json report = Read(path);
  for (const std::string pointer :
       {"/context_macro_mean_kld", "/context_bootstrap/ci95_low", "/context_bootstrap/ci95_high",
        "/mean_jsd_bits", "/top1_agreement", "/strata/code/mean_kld", "/worst_contexts/0/mean_kld",
        "/max_kld", "/kld_tail/max_kld", "/p99_kld", "/token_median_kld",
        "/kld_tail/bin_edges/7"}) {
    Json changed = report;
    double& value = changed[Json::json_pointer(pointer)].get_ref<double&>();
    value *= 1.001;
    const auto again = RecomputePublishedReport(changed, path);
    ASSERT_TRUE(again.ok()) << pointer << again.status();
    EXPECT_EQ(PythonPrettyJson(*again), Bytes(path)) << pointer;
  }
  for (const std::string pointer :
       {"/token_mean_kld", "/per_context_all/4/mean_kld", "/per_context/4/top1_agreement"}) {
    Json changed = report;
    changed[Json::json_pointer(pointer)].get_ref<double&>() *= 1.001;
    EXPECT_FALSE(RecomputePublishedReport(changed, path).ok()) << pointer;
  }
  Json moved = report;  // a count one bucket beyond the largest value
  moved["kld_tail"]["counts"][500] = 1;
  EXPECT_EQ(ReasonOf(RecomputePublishedReport(moved, path).status()), "REPORT_MISMATCH");
}

TEST(PublishedForms, PairsAreTheirReports) {
  for (const std::string name :
       {"paired-a-b", "paired-a-c", "paired-a-b-fp32", "paired-own-shared"}) {
    const std::string path = "reports/" + name + ".json";
    const Json want = Read(path);
    const auto side = [&](const char* key) {
      const std::string report = want.at(key).at("report").get<std::string>();
      return PublishedSide{report, want.at(key).at("label").get<std::string>(), Read(report)};
    };
    const auto paired = PairPublishedReports(side("a"), side("b"));
    ASSERT_TRUE(paired.ok()) << paired.status();
    EXPECT_EQ(PythonPrettyJson(*paired), Bytes(path)) << path;
  }
}

TEST(PublishedForms, DifferentMeasurementsAreNotPaired) {
  const PublishedSide a{"a", "a", Read("reports/a.json")};
  for (const std::string other : {"a-from16", "a-qualification", "shard-0000-a"}) {
    const PublishedSide b{other, "b", Read("reports/" + other + ".json")};
    EXPECT_EQ(ReasonOf(PairPublishedReports(a, b).status()), "NOT_COMPARABLE") << other;
  }
}

class Aggregate : public ::testing::Test {
 protected:
  void SetUp() override {
    parent_ = *ReadSuite(JoinPath(Folder(), "suite"));
    want_ = Read("reports/cumulative-a.json");
    options_.parent = &parent_;
    options_.parent_path = "suite";
    options_.shard_size = 7;
    options_.shards = {0, 1};
    options_.candidate = "a";
    options_.tool = want_.at("tool").get<std::string>();
    options_.generated_unix = want_.at("generated_unix").get<int64_t>();
  }
  static PublishedInput Input(const std::string& path) {
    return {path, Sha256Hex(Bytes(path)), Read(path)};
  }
  absl::StatusOr<Json> Run(const std::vector<std::string>& paths) {
    std::vector<PublishedInput> inputs;
    for (const std::string& path : paths) inputs.push_back(Input(path));
    return AggregatePublishedReports(inputs, options_, *AggregateProseOf(want_, "receipt"));
  }
  Suite parent_;
  Json want_;
  AggregateOptions options_;
};

TEST_F(Aggregate, ReceiptsAreTheirShards) {
  // In whatever order they come.
  const auto receipt = Run({"reports/shard-0001-a.json", "reports/shard-0000-a.json"});
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(PythonPrettyJson(*receipt), Bytes("reports/cumulative-a.json"));
}

TEST_F(Aggregate, RefusesWhatDoesNotBelongTogether) {
  EXPECT_EQ(ReasonOf(Run({"reports/shard-0000-a.json", "reports/shard-0001-b.json"}).status()),
            "NOT_COMPARABLE");
  EXPECT_EQ(ReasonOf(Run({"reports/shard-0000-a.json"}).status()), "COVERAGE_INVALID");
  EXPECT_EQ(ReasonOf(Run({"reports/shard-0000-a.json", "reports/shard-0000-a.json"}).status()),
            "COVERAGE_INVALID");
  EXPECT_EQ(ReasonOf(Run({"reports/a.json", "reports/a-from16.json"}).status()), "NOT_COMPARABLE");
  parent_.contexts[3].token_sha256 = parent_.contexts[4].token_sha256;
  EXPECT_EQ(ReasonOf(Run({"reports/shard-0000-a.json", "reports/shard-0001-a.json"}).status()),
            "COVERAGE_INVALID");
}

TEST(PublishedForms, LadderPairsAreTheirReceipts) {
  const std::string path = "reports/ladder-paired.json";
  const Json want = Read(path);
  std::vector<std::pair<std::string, PublishedInput>> inputs;
  for (const auto& [label, input] : want.at("inputs").items()) {
    const std::string receipt = input.at("path").get<std::string>();
    inputs.push_back({label, {receipt, Sha256Hex(Bytes(receipt)), Read(receipt)}});
  }
  LadderPairingOptions options;
  options.scope = want.at("scope").get<std::string>();
  options.statistic = want.at("method").at("statistic").get<std::string>();
  options.operands = want.at("method").at("operands").get<std::string>();
  options.generated_utc = want.at("generated_utc").get<std::string>();
  const auto paired = PairCumulativeReceipts(inputs, {{"a", "b"}}, options);
  ASSERT_TRUE(paired.ok()) << paired.status();
  EXPECT_EQ(PythonPrettyJson(*paired), Bytes(path));
  inputs[1].second.document["comparator"]["device"] = "cuda";
  EXPECT_EQ(ReasonOf(PairCumulativeReceipts(inputs, {{"a", "b"}}, options).status()),
            "NOT_COMPARABLE");
}

// Rows written in pieces are those of the tree, whatever their names hold: what JSON escapes, what
// ensure_ascii does, astral points, control characters, DEL, separators of JavaScript, "</".
TEST(PublishedForms, RowsInPiecesAreThoseOfTheTree) {
  const std::string_view names[] = {
      "",
      "plain",
      "quote\" backslash\\ slash/ </script>",
      "\b\f\n\r\t",
      std::string_view("nul\0unit\x1f", 9),
      "del\x7f",
      "\xC2\x80 \xC3\xA9 \xDF\xBF",
      "\xE0\xA0\x80 \xE2\x80\xA8\xE2\x80\xA9 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF",
      "\xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF"};
  const double values[] = {0, -0.0, 1, 0.1, 1e16, 1e-5, 123456789012345680.0, 5e-324, 1.7e308};
  PublishedRow row;
  for (const std::string_view stratum : names) {
    for (const std::string_view cluster : names) {
      row.stratum = stratum;
      row.source_cluster = cluster;
      row.mean_kld = values[row.index % 9];
      row.median_kld = values[row.index / 9 % 9];
      row.top1_agreement = values[(row.index + 4) % 9];
      row.positions = 2147483647 - row.index;
      const Json tree = PublishedContextAllJson(row);
      std::string canon, pretty = "{\n  \"rows\": [\n    ";
      AppendContextAllCanon(row, &canon);
      EXPECT_EQ(canon, PythonCanonJson(tree));
      AppendContextAllPretty(row, &pretty);
      EXPECT_EQ(pretty + "\n  ]\n}", PythonPrettyJson({{"rows", Json::array({tree})}}));
      ++row.index;
    }
  }
  row.stratum = "\xC3\xA9\xF0\x9F\x98\x80\x7f\n/";  // and as CPython 3.11 writes it
  std::string canon;
  AppendContextAllCanon(row, &canon);
  EXPECT_NE(canon.find(R"("stratum":"\u00e9\ud83d\ude00\u007f\n/")"), std::string::npos) << canon;
}

}  // namespace
}  // namespace assay
