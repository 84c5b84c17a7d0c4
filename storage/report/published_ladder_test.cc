// Ten shards of five candidates, aggregated: the bytes of the peer's receipts, sentences apart
// (tests/data/ladder; make_ladder.py ran the peer's program).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/sums.h"
#include "storage/report/tail.h"

namespace assay {
namespace {

constexpr int64_t kShards = 10, kSize = 7, kPositions = 47;

class Ladder : public ::testing::Test {
 protected:
  Ladder()
      : data_(*ReadJsonFile(std::string(std::getenv("ASSAY_SOURCE_DIR")) +
                            "/tests/data/ladder/ladder.json")) {}

  static std::string TokenDigest(const Json& context) {
    return Sha256Hex("tokens " + context.at("index").dump());
  }

  Suite MakeSuite() const {
    Json index = Json::array(), strata = Json::object();
    std::map<std::string, int> counts;
    std::set<std::string> clusters;
    std::string digests;
    for (const Json& c : data_.at("contexts")) {
      char file[32];
      snprintf(file, sizeof(file), "tokens/context-%04d.json", c.at("index").get<int>());
      index.push_back({{"index", c.at("index")},
                       {"stratum", c.at("stratum")},
                       {"source_cluster", c.at("cluster")},
                       {"file", file},
                       {"tokens", kPositions + 1},
                       {"token_sha256", TokenDigest(c)},
                       {"calibration_shingle_hits", 0},
                       {"partition", "analysis"},
                       {"sentinel", false}});
      digests += TokenDigest(c);
      ++counts[c.at("stratum").get<std::string>()];
      clusters.insert(c.at("cluster").get<std::string>());
    }
    for (const auto& [name, count] : counts) strata[name] = count;
    const size_t n = index.size();
    const Json manifest = {
        {"schema", "qwen38-distribution-fidelity/3"},
        {"model", "/models/synthetic"},
        {"context_length", kPositions + 1},
        {"scored_positions_per_context", kPositions},
        {"contexts", n},
        {"total_scored_positions", kPositions * static_cast<int64_t>(n)},
        {"hidden_size", 96},
        {"vocab_size", 1200},
        {"held_out", true},
        {"partitions", {{"analysis", n}, {"qualification", 0}, {"sentinels", 0}}},
        {"strata", strata},
        {"source_clusters", clusters.size()},
        {"context_index", index},
        {"suite_token_sha256", Sha256Hex(digests)}};
    auto suite = ParseSuiteManifest(PythonPrettyJson(manifest), "suite");
    EXPECT_TRUE(suite.ok()) << suite.status();
    return *suite;
  }

  Json Tail(const Json& candidate, int64_t shard, int64_t total, const Json& worst) const {
    Json counts = Json::array();
    for (int i = 0; i <= kTailEdges; ++i) counts.push_back(0);
    for (const Json& entry : candidate.at("counts")[shard])
      counts[entry[0].get<size_t>()] = entry[1];
    return {{"binning", {{"bins", 560}}},
            {"bin_edges", TailEdges()},
            {"counts", counts},
            {"total_count", total},
            {"max_kld", worst},
            {"min_kld", candidate.at("least")[shard]},
            {"shard_exact_quantiles",
             {{"p50", worst}, {"p95", worst}, {"p99", worst}, {"p999", worst}}}};
  }

  PublishedInput Report(int64_t number, int64_t shard) const {
    const Json& candidate = data_.at("candidates")[number];
    const int64_t from = candidate.at("score_from").get<int64_t>(), each = kPositions - from;
    const bool first = candidate.at("first_generation").get<bool>();
    const int64_t total = each * kSize;
    const std::string n = std::to_string(number), s = std::to_string(shard);
    Json rows = Json::array();
    std::vector<double> means, products;
    std::string digests;
    int64_t hits = 0;
    double worst = -INFINITY;
    for (int64_t i = shard * kSize; i < (shard + 1) * kSize; ++i) {
      const Json &row = candidate.at("rows")[i], &c = data_.at("contexts")[i];
      means.push_back(row.at("mean").get<double>());
      products.push_back(means.back() * static_cast<double>(each));
      digests += TokenDigest(c);
      hits += row.at("hits").get<int64_t>();
      worst = std::max(worst, row.at("max").get<double>());
      rows.push_back(
          {{"index", c.at("index")},
           {"source_cluster", c.at("cluster")},
           {"stratum", c.at("stratum")},
           {"positions_scored", each},
           {"mean_kld", row.at("mean")},
           {"median_kld", row.at("median")},
           {"top1_agreement", row.at("hits").get<double>() / static_cast<double>(each)}});
    }
    const auto identity = [](const std::string& path, const char* shard_name) {
      return Json{{"model_path", path},
                  {"model_revision", nullptr},
                  {"shard_sha256", {{shard_name, Sha256Hex(shard_name)}}}};
    };
    Json out = {{"schema", "qwen38-fidelity-report/" + std::to_string(first      ? 1
                                                                      : from > 0 ? 3
                                                                                 : 2)},
                {"reference", "captures/" + s + "/bf16"},
                {"candidate", "captures/" + s + "/" + n},
                {"reference_identity", identity("/models/bf16", "b")},
                {"candidate_identity", identity("/models/candidate-" + n, "a")},
                {"head", "head/weight.safetensors"},
                {"head_sha256", Sha256Hex("head")},
                {"candidate_head", nullptr},
                {"candidate_head_sha256", nullptr},
                {"suite_token_sha256", Sha256Hex(digests)},
                {"filter", "all"}};
    if (!first) {
      out["scored_position_window"] = {{"schema", "qwen38-scored-position-window/1"},
                                       {"score_from", from},
                                       {"positions_per_context", each}};
    }
    out["contexts"] = kSize;
    out["scored_positions"] = total;
    out["vocab_size"] = 1200;
    out["hidden_size"] = 96;
    out["token_mean_kld"] = ExactSumOf(products) / static_cast<double>(total);
    out["p999_kld"] = worst;
    out["max_kld"] = worst;
    if (!first) out["kld_tail"] = Tail(candidate, shard, total, worst);
    out["context_macro_mean_kld"] = ExactMean(means);
    out["mean_jsd_bits"] = means.front() / 3;
    out["top1_agreement"] = static_cast<double>(hits) / static_cast<double>(total);
    out["per_context_all"] = rows;
    out["comparator"] = {{"vocab_chunk", 24832},
                         {"device", "cuda"},
                         {"accumulation", "float64"},
                         {"two_pass", true}};
    char path[48];
    snprintf(path, sizeof(path), "reports/shard-%04d/%d.json", static_cast<int>(shard),
             static_cast<int>(number));
    return {path, Sha256Hex(PythonPrettyJson(out)), out};
  }

  AggregateOptions Options(int64_t number, const Suite& suite) const {
    AggregateOptions options;
    options.parent = &suite;
    options.parent_path = "suite";
    options.shard_size = kSize;
    for (int64_t s = 0; s < kShards; ++s) options.shards.push_back(s);
    options.label = "candidate " + std::to_string(number);
    options.generated_unix = data_.at("generated_unix").get<int64_t>();
    options.allow_no_tail = data_.at("candidates")[number].at("first_generation").get<bool>();
    return options;
  }

  static AggregateProse NoSentences() {
    AggregateProse prose;
    prose.not_aggregable = Json::object();
    return prose;
  }

  Json data_;
};

TEST_F(Ladder, PublishedBytesOfFiveCandidates) {
  const Suite suite = MakeSuite();
  for (int64_t number = 0; number < 5; ++number) {
    PublishedAggregator aggregator(Options(number, suite));
    for (int64_t shard = kShards; shard-- > 0;) aggregator.Add(Report(number, shard));
    const auto receipt = aggregator.Finish(NoSentences());
    ASSERT_TRUE(receipt.ok()) << number << receipt.status();
    EXPECT_EQ(Sha256Hex(PythonPrettyJson(*receipt)),
              data_.at("candidates")[number].at("receipt_sha256").get<std::string>())
        << number;
    // Written in pieces: the same bytes.
    std::string bytes;
    const auto written = aggregator.Write(NoSentences(), [&](std::string_view piece) {
      bytes += piece;
      return absl::OkStatus();
    });
    ASSERT_TRUE(written.ok()) << number << written.status();
    EXPECT_EQ(bytes, PythonPrettyJson(*receipt)) << number;
    EXPECT_TRUE(written->at("per_context_all").empty());
  }
}

// A context that the suite does not have, and reports in any order.
TEST_F(Ladder, ContextOfAnotherSuite) {
  const Suite suite = MakeSuite();
  PublishedAggregator aggregator(Options(0, suite));
  for (int64_t shard = kShards; shard-- > 0;) {
    PublishedInput report = Report(0, shard);
    if (shard == 3) report.document["per_context_all"][1]["index"] = 123456;
    aggregator.Add(report);
  }
  const auto receipt = aggregator.Finish(NoSentences());
  EXPECT_EQ(ReasonOf(receipt.status()), "COVERAGE_INVALID");
  EXPECT_NE(MessageOf(receipt.status()).find("reports/shard-0003/0.json: context 123456 is not in"),
            std::string::npos)
      << receipt.status();
}

// Everything that is wrong is said at once.
TEST_F(Ladder, AllReasons) {
  const Suite suite = MakeSuite();
  PublishedAggregator aggregator(Options(0, suite));
  for (int64_t shard = 0; shard < kShards - 1; ++shard) {
    PublishedInput report = Report(0, shard);
    if (shard == 2) report.document["head_sha256"] = Sha256Hex("other");
    if (shard == 2) report.document["comparator"]["device"] = "cpu";
    if (shard == 3) report.document["candidate_identity"]["model_path"] = "/elsewhere";
    if (shard == 4) report.document["token_mean_kld"] = 1.0;
    if (shard == 5) report.document["kld_tail"]["counts"][7] = 1;
    aggregator.Add(report);
  }
  aggregator.Add(Report(0, 1));
  const auto receipt = aggregator.Finish(NoSentences());
  EXPECT_EQ(ReasonOf(receipt.status()), "NOT_COMPARABLE");
  const std::string why = MessageOf(receipt.status());
  for (const char* part : {"REFERENCE_HEAD_DIFFERS", "COMPARATOR_DIFFERS", "CANDIDATE_DIFFERS",
                           "token_mean_kld is 1.0", "kld_tail counts", "is in reports/shard-0001",
                           "other shards are covered"}) {
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
  }
}

TEST_F(Ladder, OlderReportsOnlyByName) {
  const Suite suite = MakeSuite();
  AggregateOptions options = Options(4, suite);
  options.allow_no_tail = false;
  PublishedAggregator aggregator(options);
  for (int64_t shard = 0; shard < kShards; ++shard) aggregator.Add(Report(4, shard));
  EXPECT_EQ(ReasonOf(aggregator.Finish(NoSentences()).status()), "REPORT_INVALID");
}

}  // namespace
}  // namespace assay
