// Every difference that makes two reports incomparable is found, and all of them at once.

#include "storage/report/comparability.h"

#include <functional>

#include "gmock/gmock.h"
#include "storage/base/status.h"
#include "storage/report/pairing.h"
#include "storage/report/report_test_data.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Codes(const Comparability& c) {
  std::vector<std::string> out;
  for (const Incomparability& reason : c.reasons) out.push_back(reason.code);
  return out;
}

Json ReportWith(const std::function<void(ReportInputs*)>& change) {
  ReportInputs inputs = SmolInputs("q4_0");
  change(&inputs);
  return Must(BuildReport(inputs));
}

Json Plain() { return Must(BuildReport(SmolInputs("int4-g32"))); }

HeadResult& Own(ReportInputs* inputs) { return inputs->heads["own"]; }

TEST(Comparability, EachDifferenceHasItsCode) {
  const std::string other = Sha256Hex("other");
  const struct {
    const char* code;
    bool numeric;
    std::function<void(ReportInputs*)> change;
  } table[] = {
      {"SUITE_DIFFERS", false, [&](auto* i) { i->suite.suite_token_sha256 = other; }},
      {"SUITE_DIFFERS", false, [&](auto* i) { i->suite.manifest_sha256 = other; }},
      {"COVERAGE_DIFFERS", false, [&](auto* i) { i->suite.filter = "analysis"; }},
      {"COVERAGE_DIFFERS", false, [&](auto* i) { i->contexts[3].index = 33; }},
      {"COVERAGE_DIFFERS", false, [&](auto* i) { i->contexts[3].source_cluster.append("x"); }},
      {"REFERENCE_DIFFERS", false, [&](auto* i) { i->reference.capture.content_sha256 = other; }},
      {"CUT_POINT_DIFFERS", false, [&](auto* i) { i->reference.capture.cut_point = "elsewhere"; }},
      {"REFERENCE_HEAD_DIFFERS", false,
       [&](auto* i) { Own(i).reference_head.rounded_sha256 = other; }},
      {"LOGIT_SCALE_DIFFERS", false, [&](auto* i) { Own(i).reference_head.logit_scale = 0.5; }},
      {"HEAD_BIAS_DIFFERS", false, [&](auto* i) { Own(i).reference_head.bias_sha256 = other; }},
      {"VALID_VOCABULARY_DIFFERS", false, [](auto* i) { i->numeric.valid_vocab = 100; }},
      {"SOFTCAP_DIFFERS", false, [](auto* i) { i->numeric.softcap = 30.0; }},
      {"POLICY_DIFFERS", true, [](auto* i) { i->numeric.policy = "torch-bf16"; }},
      {"OPERAND_DTYPE_DIFFERS", true, [](auto* i) { i->numeric.operand_dtype = "f32"; }},
      {"BACKEND_DIFFERS", true, [](auto* i) { i->numeric.backend = "cpu-f32"; }},
      {"KERNELS_DIFFER", true, [](auto* i) { i->numeric.kernel_identity["isa"] = "x"; }},
      {"INFINITE_RULE_DIFFERS", true, [](auto* i) { i->numeric.allow_infinite = true; }},
  };
  for (const auto& row : table) {
    const Json b = ReportWith(row.change);
    const Comparability found = CompareReports(Plain(), b, "own");
    SCOPED_TRACE(row.code);
    EXPECT_THAT(Codes(found), ElementsAre(row.code));
    EXPECT_FALSE(found.comparable());
    EXPECT_EQ(found.across_policies(), row.numeric);
    EXPECT_EQ(Codes(CompareReports(b, Plain(), "own")), Codes(found));
    // Pairing refuses all of them, and only the numeric ones give way when asked by name.
    EXPECT_EQ(ReasonOf(PairReports(Plain(), b, "own").status()), "NOT_COMPARABLE");
    const auto asked = PairReports(Plain(), b, "own", AcrossPolicies::kAllow);
    EXPECT_EQ(asked.ok(), row.numeric) << asked.status();
    if (!asked.ok()) continue;
    ASSERT_EQ(asked->at("numeric_difference").size(), 1u);
    EXPECT_EQ(asked->at("numeric_difference")[0].at("code"), row.code);
    EXPECT_TRUE(asked->at("difference_a_minus_b").is_number());
  }
}

// A member that only one report has differs from none.
TEST(Comparability, MembersThatAreOftenAbsentCount) {
  Json chunked = Plain();
  chunked["numeric"]["vocab_chunk"] = 512;
  EXPECT_THAT(Codes(CompareReports(Plain(), chunked, "own")), ElementsAre("VOCAB_CHUNK_DIFFERS"));
  chunked["numeric"]["vocab_chunk"] = nullptr;
  EXPECT_TRUE(CompareReports(Plain(), chunked, "own").comparable());
}

TEST(Comparability, WhatBelongsToTheCandidateMayDiffer) {
  const Json other = ReportWith([](ReportInputs* i) {
    i->candidate.capture.content_sha256 = Sha256Hex("x");
    i->candidate.capture.engine["engine"] = "other";
    i->reference.capture.stack["isa"] = "another";
    i->numeric.operand_rounding = "bf16-rne";
    i->repeats.clear();
    Own(i).candidate_head.rounded_sha256 = Sha256Hex("x");
    Own(i).candidate_head.logit_scale = 0.5;
    Own(i).reference_head.original_dtype = "F32";
  });
  const Comparability found = CompareReports(Plain(), other, "own");
  EXPECT_THAT(Codes(found), IsEmpty());
  EXPECT_TRUE(found.comparable() && found.across_policies());
  EXPECT_EQ(found.Text(), "");
  EXPECT_FALSE(Must(PairReports(Plain(), other, "own")).contains("numeric_difference"));
}

TEST(Comparability, AllReasonsAreNamedAtOnce) {
  const Json b = ReportWith([](ReportInputs* i) {
    i->suite.suite_token_sha256 = Sha256Hex("x");
    i->numeric.softcap = 30.0;
    i->numeric.policy = "torch-bf16";
    i->numeric.backend = "cpu-f32";
  });
  const Comparability found = CompareReports(Plain(), b, "own");
  EXPECT_THAT(Codes(found),
              ElementsAre("SUITE_DIFFERS", "SOFTCAP_DIFFERS", "POLICY_DIFFERS", "BACKEND_DIFFERS"));
  EXPECT_FALSE(found.across_policies());
  EXPECT_THAT(found.Text(), HasSubstr("different suites [SUITE_DIFFERS]; "));
  EXPECT_THAT(found.Text(), HasSubstr("(null and 30)"));
  EXPECT_THAT(found.Text(), HasSubstr("(\"exact\" and \"torch-bf16\")"));
  EXPECT_EQ(found.NumericJson(),
            Json::parse(R"([{"code":"POLICY_DIFFERS","a":"exact","b":"torch-bf16"},
                            {"code":"BACKEND_DIFFERS","a":"cpu-bf16","b":"cpu-f32"}])"));
  const absl::Status asked = PairReports(Plain(), b, "own", AcrossPolicies::kAllow).status();
  EXPECT_EQ(ReasonOf(asked), "NOT_COMPARABLE");
  EXPECT_THAT(MessageOf(asked), HasSubstr("softcaps"));
  EXPECT_THAT(Codes(CompareReports(Plain(), Plain(), "shared")), ElementsAre("HEAD_MISSING"));
  EXPECT_THAT(MessageOf(PairReports(Plain(), Plain(), "shared").status()),
              HasSubstr("--heads own,shared"));
}

// A summary refuses by default and shows the difference when asked.
TEST(Comparability, SummariesFollowIt) {
  SummaryCandidate a, b;
  a.label = "a";
  a.report = Plain();
  b.label = "b";
  b.report = ReportWith([](ReportInputs* i) { i->numeric.policy = "torch-bf16"; });
  const Json refused = Must(BuildSummary({a, b})).json.at("pairs")[0];
  EXPECT_THAT(refused.at("not_comparable").get<std::string>(), HasSubstr("numeric policies"));
  EXPECT_TRUE(refused.at("comparison").is_null());
  const Summary shown = Must(BuildSummary({a, b}, {AcrossPolicies::kAllow, ""}));
  const Json pair = shown.json.at("pairs")[0];
  EXPECT_TRUE(pair.at("not_comparable").is_null());
  EXPECT_EQ(pair.at("comparison").at("numeric_difference")[0].at("b"), "torch-bf16");
  EXPECT_THAT(shown.table, HasSubstr("ARITHMETIC DIFFERS"));
  EXPECT_THAT(shown.md, HasSubstr("ARITHMETIC DIFFERS"));
}

// Published documents: each member that counts for a use is found, under its code and alone.
TEST(Comparability, PublishedDocuments) {
  const Json report = {
      {"schema", "qwen38-fidelity-report/2"},
      {"suite_token_sha256", "s"},
      {"filter", "all"},
      {"head", "h"},
      {"head_sha256", "d"},
      {"candidate_head", nullptr},
      {"candidate_head_sha256", nullptr},
      {"vocab_size", 10},
      {"hidden_size", 4},
      {"contexts", 2},
      {"scored_positions", 6},
      {"source_clusters", 2},
      {"comparator", {{"device", "cuda"}}},
      {"reference_identity",
       {{"model_path", "/r"},
        {"shard_sha256", "w"},
        {"config_sha256", "c"},
        {"model_revision", "v"}}},
      {"candidate_identity", {{"model_path", "/c"}, {"quantization", "exl3"}}},
      {"scored_position_window", {{"score_from", 0}, {"positions_per_context", 3}}},
      {"kld_tail", {{"bin_edges", {1, 2}}}},
      {"suite", {{"parent", {{"suite_token_sha256", "p"}, {"scored_positions_per_context", 3}}}}},
      {"per_context_all",
       {{{"index", 0}, {"source_cluster", "a"}, {"positions_scored", 3}},
        {{"index", 1}, {"source_cluster", "b"}, {"positions_scored", 3}}}}};
  constexpr auto pair = PublishedUse::kPair, weld = PublishedUse::kAggregate,
                 ladder = PublishedUse::kLadderPair;
  const struct {
    PublishedUse use;
    const char* code;
    const char* member;
    Json value;
  } table[] = {
      {pair, "SUITE_DIFFERS", "/suite_token_sha256", "x"},
      {ladder, "SUITE_DIFFERS", "/suite/parent/suite_token_sha256", "x"},
      {pair, "FILTER_DIFFERS", "/filter", "x"},
      {weld, "FILTER_DIFFERS", "/filter", "x"},
      {pair, "WINDOW_DIFFERS", "/scored_position_window/score_from", 16},
      {weld, "WINDOW_DIFFERS", "/scored_position_window/score_from", 16},
      {ladder, "WINDOW_LENGTH_DIFFERS", "/scored_position_window/positions_per_context", 2},
      {pair, "COVERAGE_DIFFERS", "/per_context_all/1/index", 7},
      {pair, "COVERAGE_DIFFERS", "/per_context_all/1/source_cluster", "x"},
      {pair, "COVERAGE_DIFFERS", "/per_context_all/1/positions_scored", 2},
      {ladder, "CONTEXTS_DIFFER", "/contexts", 3},
      {ladder, "POSITIONS_DIFFER", "/scored_positions", 7},
      {ladder, "CLUSTERS_DIFFER", "/source_clusters", 1},
      {ladder, "REFERENCE_DIFFERS", "/reference_identity/model_path", "/x"},
      {weld, "REFERENCE_DIFFERS", "/reference_identity/model_path", "/x"},
      {pair, "REFERENCE_WEIGHTS_DIFFER", "/reference_identity/shard_sha256", "x"},
      {pair, "REFERENCE_CONFIG_DIFFERS", "/reference_identity/config_sha256", "x"},
      {pair, "REFERENCE_REVISION_DIFFERS", "/reference_identity/model_revision", "x"},
      {pair, "REFERENCE_HEAD_DIFFERS", "/head_sha256", "x"},
      {weld, "REFERENCE_HEAD_DIFFERS", "/head_sha256", "x"},
      {pair, "VOCABULARY_DIFFERS", "/vocab_size", 11},
      {pair, "HIDDEN_SIZE_DIFFERS", "/hidden_size", 5},
      {weld, "HEAD_NAME_DIFFERS", "/head", "x"},
      {ladder, "CANDIDATE_HEAD_DIFFERS", "/candidate_head_sha256", "x"},
      {ladder, "CANDIDATE_HEAD_NAME_DIFFERS", "/candidate_head", "x"},
      {weld, "HISTOGRAM_DIFFERS", "/kld_tail/bin_edges", {1, 3}},
      {weld, "CANDIDATE_DIFFERS", "/candidate_identity/quantization", "x"},
      {weld, "COMPARATOR_DIFFERS", "/comparator/device", "cpu"},
      {ladder, "COMPARATOR_DIFFERS", "/comparator/device", "cpu"},
      {pair, "COMPARATOR_DIFFERS", "/comparator/device", "cpu"},
  };
  for (const PublishedUse use : {pair, weld, ladder}) {
    EXPECT_THAT(Codes(ComparePublished(report, report, use)), IsEmpty());
  }
  for (const auto& row : table) {
    SCOPED_TRACE(std::string(row.code) + " " + row.member);
    Json other = report;
    other[Json::json_pointer(row.member)] = row.value;
    const Comparability found = ComparePublished(report, other, row.use);
    EXPECT_THAT(Codes(found), ElementsAre(row.code));
    EXPECT_EQ(found.across_policies(),
              row.use == pair && row.code == std::string_view("COMPARATOR_DIFFERS"));
    EXPECT_EQ(Codes(ComparePublished(other, report, row.use)), Codes(found));
  }
  Json older = report;  // an older generation states neither window nor the reference's weights
  older.erase("scored_position_window");
  older["reference_identity"].erase("shard_sha256");
  EXPECT_THAT(Codes(ComparePublished(report, older, pair)), IsEmpty());
  Json both = report;
  both["head_sha256"] = "x";
  both["vocab_size"] = 11;
  both["filter"] = "sentinel";
  EXPECT_THAT(Codes(ComparePublished(report, both, pair)),
              ElementsAre("FILTER_DIFFERS", "REFERENCE_HEAD_DIFFERS", "VOCABULARY_DIFFERS"));
}

}  // namespace
}  // namespace assay
