#include "storage/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "storage/base/status.h"
#include "storage/report/pairing.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double>& F64(ReportInputs* inputs, F64Output output, const std::string& head = "own") {
  return inputs->heads.find(head)->second.arrays.f64[static_cast<size_t>(output)];
}

TEST(Report, IsAFixedFunctionOfItsInputs) {
  const std::string once = Must(ReportBytes(Must(BuildReport(SmolInputs("int4-g32")))));
  EXPECT_EQ(once, Must(ReportBytes(Must(BuildReport(SmolInputs("int4-g32"))))));
  EXPECT_EQ(Must(ReportBytes(Must(ParseReport(once, "report.json")))), once);
}

// Every input must reach the bytes.
TEST(Report, EveryInputShows) {
  const std::string plain = Must(ReportBytes(Must(BuildReport(SmolInputs("int4-g32")))));
  const std::string other = Sha256Hex("other");
  const std::vector<std::pair<std::string, std::function<void(ReportInputs*)>>> changes = {
      {"tokens", [&](auto* i) { i->suite.suite_token_sha256 = other; }},
      {"manifest", [&](auto* i) { i->suite.manifest_sha256 = other; }},
      {"filter", [&](auto* i) { i->suite.filter = "analysis"; }},
      {"coverage", [&](auto* i) { i->suite.suite_contexts = 9; }},
      {"length", [&](auto* i) { i->suite.context_length = 65; }},
      {"index", [&](auto* i) { i->contexts[3].index = 33; }},
      {"cluster", [&](auto* i) { i->contexts[3].source_cluster = std::string("renamed"); }},
      {"stratum", [&](auto* i) { i->contexts[3].stratum = std::string("renamed"); }},
      {"partition", [&](auto* i) { i->contexts[3].partition = std::string("renamed"); }},
      {"capture", [&](auto* i) { i->reference.capture.content_sha256 = other; }},
      {"capture of candidate", [&](auto* i) { i->candidate.capture.content_sha256 = other; }},
      {"cut point", [&](auto* i) { i->candidate.capture.cut_point = "elsewhere"; }},
      {"engine", [&](auto* i) { i->candidate.capture.engine["engine"] = "other"; }},
      {"stack", [&](auto* i) { i->candidate.capture.stack["isa"] = "avx512"; }},
      {"model", [&](auto* i) { i->candidate.model["transform"] = "rtn:bits=8,group=channel"; }},
      {"model file", [&](auto* i) { i->candidate.model["files"][0]["size"] = 1001; }},
      {"identity", [&](auto* i) { i->reference.model_identity = other; }},
      {"size", [&](auto* i) { i->candidate.sizes.file_bytes = 7; }},
      {"bits", [&](auto* i) { i->candidate.sizes.body_bits_per_weight = 4.5; }},
      {"what-if", [&](auto* i) { i->candidate.sizes.what_if = true; }},
      {"policy", [&](auto* i) { i->numeric.policy = "fp64-audit"; }},
      {"backend", [&](auto* i) { i->numeric.backend = "cpu-f32"; }},
      {"kernel", [&](auto* i) { i->numeric.kernel_identity["isa"] = "other"; }},
      {"vocabulary", [&](auto* i) { i->numeric.valid_vocab = 100; }},
      {"softcap", [&](auto* i) { i->numeric.softcap = 30.0; }},
      {"infinite", [&](auto* i) { i->numeric.allow_infinite = true; }},
      {"head", [&](auto* i) { i->heads["own"].candidate_head.rounded_sha256 = other; }},
      {"original head", [&](auto* i) { i->heads["own"].candidate_head.original_sha256 = other; }},
      {"repeat", [&](auto* i) { i->repeats[0].contexts.pop_back(); }},
      {"disclosure",
       [&](auto* i) {
         i->disclosures.push_back({"X", "y"});
       }},
  };
  for (const auto& [name, change] : changes) {
    ReportInputs inputs = SmolInputs("int4-g32");
    change(&inputs);
    EXPECT_NE(Must(ReportBytes(Must(BuildReport(inputs)))), plain) << name;
  }
  for (size_t o = 0; o < kF64Outputs.size(); ++o) {
    ReportInputs inputs = SmolInputs("int4-g32");
    double& value = inputs.heads["own"].arrays.f64[o][100];
    value = std::nextafter(value, 1.0);
    EXPECT_NE(Must(ReportBytes(Must(BuildReport(inputs)))), plain) << kF64Outputs[o];
  }
  for (size_t o = 0; o < kI32Outputs.size(); ++o) {
    ReportInputs inputs = SmolInputs("int4-g32");
    ++inputs.heads["own"].arrays.i32[o][100];
    EXPECT_NE(Must(ReportBytes(Must(BuildReport(inputs)))), plain) << kI32Outputs[o];
  }
}

TEST(Report, InfinitePositionsAreRefusedUnlessAllowed) {
  ReportInputs inputs = SmolInputs("int4-g32");
  F64(&inputs, F64Output::kKlRefCand)[70] = kInf;
  EXPECT_EQ(ReasonOf(BuildReport(inputs).status()), "INFINITE_POSITION");
  inputs.numeric.allow_infinite = true;
  const Json report = Must(BuildReport(inputs));
  const Json& head = report.at("heads").at("own");
  const Json& kl = head.at("statistics").at("kl_ref_cand");
  EXPECT_TRUE(kl.at("mean").at("value").is_null());
  EXPECT_EQ(kl.at("mean").at("infinite_count"), 1);
  EXPECT_TRUE(kl.at("max").is_null());
  EXPECT_TRUE(kl.at("p50").is_number());
  EXPECT_TRUE(kl.at("context_bootstrap").at("refused").is_string());
  EXPECT_EQ(head.at("contexts")[1].at("mean_kl_ref_cand").at("infinite_count"), 1);
  EXPECT_EQ(head.at("contexts")[0].at("mean_kl_ref_cand").at("infinite_count"), 0);
  EXPECT_EQ(head.at("worst_contexts")[0], 1);
  EXPECT_THAT(report.at("disclosures").dump(), ::testing::HasSubstr("INFINITE_POSITIONS"));
  EXPECT_TRUE(RecheckHead(report, "own", inputs.heads["own"].arrays, "r").ok());
}

TEST(Report, InfiniteReverseKlIsACaseNotARefusal) {
  ReportInputs inputs = SmolInputs("int4-g32");
  F64(&inputs, F64Output::kKlCandRef)[70] = kInf;
  const Json report = Must(BuildReport(inputs));
  const Json& reverse = report.at("heads").at("own").at("statistics").at("kl_cand_ref");
  EXPECT_EQ(reverse.at("mean"), Json({{"infinite_count", 1}, {"value", nullptr}}));
}

TEST(Report, ImpossibleValuesAreRefused) {
  for (size_t o = 0; o < kF64Outputs.size(); ++o) {
    ReportInputs inputs = SmolInputs("int4-g32");
    inputs.heads["own"].arrays.f64[o][5] = std::nan("");
    const absl::Status status = BuildReport(inputs).status();
    EXPECT_EQ(ReasonOf(status), "POSITIONS_INVALID");
    EXPECT_THAT(MessageOf(status), ::testing::HasSubstr(std::string(kF64Outputs[o])));
  }
  ReportInputs negative = SmolInputs("int4-g32");
  F64(&negative, F64Output::kJsdBits)[5] = -1e-300;
  EXPECT_EQ(ReasonOf(BuildReport(negative).status()), "POSITIONS_INVALID");
  ReportInputs shorter = SmolInputs("int4-g32");
  F64(&shorter, F64Output::kDeltaP).pop_back();
  EXPECT_EQ(ReasonOf(BuildReport(shorter).status()), "POSITIONS_INVALID");
  ReportInputs twice = SmolInputs("int4-g32");
  twice.contexts[1].index = twice.contexts[0].index;
  EXPECT_EQ(ReasonOf(BuildReport(twice).status()), "REPORT_INPUTS_INVALID");
  ReportInputs fewer = SmolInputs("int4-g32");
  fewer.contexts.pop_back();
  EXPECT_EQ(ReasonOf(BuildReport(fewer).status()), "REPORT_INPUTS_INVALID");
}

TEST(Report, AgreementCountsTiesBothWays) {
  ReportInputs inputs = SmolInputs("int4-g32");
  PositionArrays& arrays = inputs.heads["own"].arrays;
  const auto set = [&](I32Output o, std::vector<int32_t> first) {
    auto& values = arrays.i32[static_cast<size_t>(o)];
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = i < first.size() ? first[i] : first.back();
  };
  // Same; differs but tied in the candidate; differs clearly; last row fills the rest: same.
  set(I32Output::kTop1Ref, {3, 3, 3, 3});
  set(I32Output::kTop1Cand, {3, 2, 9, 3});
  set(I32Output::kTiesRef, {1, 1, 1, 1});
  set(I32Output::kTiesCand, {1, 2, 1, 1});
  set(I32Output::kRankTop1Ref, {0, 0, 7, 0});
  const Json report = Must(BuildReport(inputs));
  const Json& a = report.at("heads").at("own").at("statistics").at("agreement");
  EXPECT_EQ(a.at("same_top1").at("hits"), 502);
  EXPECT_EQ(a.at("same_top1_untied").at("hits"), 502);
  EXPECT_EQ(a.at("same_top1_untied").at("positions"), 503);
  EXPECT_EQ(a.at("ref_top1_in_cand_top1").at("hits"), 503);
  EXPECT_EQ(a.at("ref_top1_in_cand_top5").at("hits"), 503);
  EXPECT_EQ(a.at("ref_top1_in_cand_top10").at("hits"), 504);
  EXPECT_EQ(a.at("tied_positions_cand"), 1);
  EXPECT_EQ(a.at("tied_positions_ref"), 0);
}

TEST(Report, SelfCompareIsExactlyZero) {
  ReportInputs inputs = SmolInputs("int4-g32");
  for (const F64Output o : {F64Output::kKlRefCand, F64Output::kKlCandRef, F64Output::kJsdBits}) {
    std::fill(F64(&inputs, o).begin(), F64(&inputs, o).end(), 0.0);
  }
  const Json report = Must(BuildReport(inputs));
  const Json& statistics = report.at("heads").at("own").at("statistics");
  EXPECT_EQ(statistics.at("kl_ref_cand").at("mean").at("value"), 0.0);
  EXPECT_EQ(statistics.at("kl_ref_cand").at("context_bootstrap").at("ci95_high"), 0.0);
  EXPECT_EQ(statistics.at("jsd_bits").at("max"), 0.0);
}

TEST(Report, HeadDifferenceNeedsBothHeads) {
  ReportInputs inputs = SmolInputs("int4-g32");
  EXPECT_TRUE(Must(BuildReport(inputs)).at("head_difference").is_null());
  inputs.heads["shared"] = {TestHead(), TestHead(), SmolArrays("q4_0")};
  const Json report = Must(BuildReport(inputs));
  const Json& difference = report.at("head_difference");
  // The same two sets of rows as the fixture's pair.
  const Json expected = Must(ReadJsonFile(SmolDir() + "/known-answers/summary.json"))
                            .at("forwards")
                            .at("oracle64")
                            .at("paired")
                            .at("int4-g32_vs_q4_0");
  EXPECT_EQ(difference.at("paired").at("difference_a_minus_b"),
            expected.at("difference_a_minus_b"));
  EXPECT_EQ(report.at("heads").at("shared").at("description"), "body only");
  EXPECT_TRUE(RecheckAcrossHeads(report, "r").ok());
}

TEST(Report, NoiseFloorCountsAndAverages) {
  ReportInputs inputs = SmolInputs("int4-g32");
  RepeatedCapture& repeat = inputs.repeats[0];
  repeat.contexts[1].repeat_sha256 = Sha256Hex("changed");
  EXPECT_EQ(ReasonOf(BuildReport(inputs).status()), "REPORT_INPUTS_INVALID");
  repeat.kl_of_differing.assign(63, 0.5);
  const Json report = Must(BuildReport(inputs));
  const Json& noise = report.at("noise_floor");
  EXPECT_EQ(noise.at("byte_identical"), "1/2");
  EXPECT_EQ(noise.at("mean_kl_ref_cand"), 0.25);
  EXPECT_EQ(noise.at("repeats")[0].at("differing_contexts"), Json::array({7}));
  // The noise is larger than half the interval here, so it is what can be resolved.
  EXPECT_EQ(report.at("smallest_resolvable_difference").at("own").at("value"), 0.25);
}

TEST(Report, RecheckFindsEveryChange) {
  ReportInputs inputs = SmolInputs("int4-g32");
  const Json report = Must(BuildReport(inputs));
  PositionArrays arrays = inputs.heads["own"].arrays;
  ASSERT_TRUE(RecheckHead(report, "own", arrays, "r").ok());
  ASSERT_TRUE(RecheckAcrossHeads(report, "r").ok());
  arrays.f64[0][17] *= 1.0000001;
  EXPECT_EQ(ReasonOf(RecheckHead(report, "own", arrays, "r")), "REPORT_MISMATCH");
  Json forged = report;
  forged["heads"]["own"]["statistics"]["kl_ref_cand"]["mean"]["value"] = 0.1;
  const absl::Status status = RecheckHead(forged, "own", inputs.heads["own"].arrays, "r");
  EXPECT_EQ(ReasonOf(status), "REPORT_MISMATCH");
  EXPECT_THAT(MessageOf(status), ::testing::HasSubstr("statistics.kl_ref_cand.mean.value"));
  Json extra = report;
  extra["heads"]["own"]["statistics"]["praise"] = 1;
  EXPECT_FALSE(RecheckHead(extra, "own", inputs.heads["own"].arrays, "r").ok());
  Json coverage = report;
  coverage["coverage"]["positions"] = 505;
  EXPECT_FALSE(RecheckAcrossHeads(coverage, "r").ok());
}

TEST(Report, OnlyCanonicalBytesAreRead) {
  const std::string bytes = Must(ReportBytes(Must(BuildReport(SmolInputs("int4-g32")))));
  EXPECT_EQ(ReasonOf(ParseReport(bytes + "\n", "r").status()), "REPORT_NOT_CANONICAL");
  std::string other = bytes;
  other.replace(other.find("assay-report/1"), 14, "assay-report/2");
  EXPECT_EQ(ReasonOf(ParseReport(other, "r").status()), "REPORT_INVALID");
  EXPECT_EQ(ReasonOf(ParseReport("{}", "r").status()), "FIELD_MISSING");
}

TEST(Report, DisclosesWhatDiffers) {
  ReportInputs inputs = SmolInputs("int4-g32");
  inputs.candidate.capture.engine["engine"] = "other";
  inputs.candidate.sizes.what_if = true;
  inputs.candidate.capture.legacy = true;
  inputs.repeats.clear();
  const Json report = Must(BuildReport(inputs));
  std::vector<std::string> codes;
  for (const Json& d : report.at("disclosures")) codes.push_back(d.at("code"));
  EXPECT_THAT(codes, ::testing::IsSupersetOf({"ENGINES_DIFFER", "WHAT_IF_WEIGHTS", "LEGACY_CAPTURE",
                                              "NOISE_FLOOR_NOT_MEASURED", "HEAD_ROUNDED"}));
}

TEST(Report, PathsOfImportedIdentitiesStayOut) {
  ReportInputs inputs = SmolInputs("int4-g32");
  inputs.candidate.model = nullptr;
  inputs.candidate.model_identity = "";
  inputs.candidate.declared_identity = {{"model_path", "/home/someone/model"},
                                        {"index_sha256", Sha256Hex("i")}};
  const std::string bytes = Must(ReportBytes(Must(BuildReport(inputs))));
  EXPECT_EQ(bytes.find("/home/someone"), std::string::npos);
  EXPECT_NE(bytes.find(Sha256Hex("i")), std::string::npos);
}

TEST(Pairing, RefusesWhatIsNotComparable) {
  const Json a = Must(BuildReport(SmolInputs("int4-g32")));
  ReportInputs other = SmolInputs("q4_0");
  other.reference.capture.content_sha256 = Sha256Hex("another capture");
  const absl::Status status = PairReports(a, Must(BuildReport(other)), "own").status();
  EXPECT_EQ(ReasonOf(status), "NOT_COMPARABLE");
  EXPECT_THAT(MessageOf(status), ::testing::HasSubstr("reference captures"));
  ReportInputs policy = SmolInputs("q4_0");
  policy.numeric.policy = "fp64-audit";
  EXPECT_EQ(ReasonOf(PairReports(a, Must(BuildReport(policy)), "own").status()), "NOT_COMPARABLE");
  EXPECT_EQ(ReasonOf(PairReports(a, a, "shared").status()), "NOT_COMPARABLE");
}

TEST(Pairing, AReportThatLacksAFieldIsRefused) {
  const Json sound = Must(BuildReport(SmolInputs("int4-g32")));
  Json a = sound, b = sound;
  a["noise_floor"].erase("mean_kl_ref_cand");
  b["heads"]["own"]["contexts"][0].erase("mean_kl_ref_cand");
  for (const Json& spoiled : {a, b}) {
    EXPECT_EQ(ReasonOf(PairReports(spoiled, sound, "own").status()), "REPORT_INVALID");
    EXPECT_EQ(ReasonOf(PairReports(sound, spoiled, "own").status()), "REPORT_INVALID");
  }
}

TEST(Pairing, InfiniteContextsGiveNoNumber) {
  std::vector<PairedContext> contexts;
  for (int i = 0; i < 9; ++i) contexts.push_back({std::to_string(i), 1.0, 2.0});
  contexts[0].a = kInf;
  contexts[1].a = contexts[1].b = kInf;
  const Json json = PairedJson(contexts);
  EXPECT_TRUE(json.at("difference_a_minus_b").is_null());
  EXPECT_TRUE(json.at("bootstrap_difference").at("ci95_low").is_null());
  EXPECT_EQ(json.at("a_wins"), 7);
  EXPECT_EQ(json.at("b_wins"), 1);
  EXPECT_EQ(json.at("ties"), 1);
}

}  // namespace
}  // namespace assay
