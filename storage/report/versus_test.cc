// What a summary derives from reports, against tests/data/statistics/expected.json
// (make_expected.py there), and how many candidates are shown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "storage/base/status.h"
#include "storage/report/report_test_data.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kNames = {"int4-g32", "int8-channel", "q4_0"};

SummaryCandidate Candidate(const std::string& label, const std::string& name) {
  SummaryCandidate out;
  out.label = label;
  out.report = Must(BuildReport(SmolInputs(name)));
  out.report_sha256 = Sha256Hex(Must(ReportBytes(out.report)));
  return out;
}

std::vector<SummaryCandidate> Three() {
  std::vector<SummaryCandidate> out;
  for (const std::string& name : kNames) out.push_back(Candidate(name, name));
  return out;
}

Json Expected() {
  return Must(ReadJsonFile(std::string(std::getenv("ASSAY_SOURCE_DIR")) +
                           "/tests/data/statistics/expected.json"));
}

const Json& Own(const Json& summary, size_t i) {
  return summary.at("candidates")[i].at("heads").at("own");
}

TEST(DerivedStatistics, EqualThoseOfAnIndependentProgram) {
  const Json summary = Must(BuildSummary(Three())).json;
  const Json expected = Expected().at("candidates");
  for (size_t i = 0; i < kNames.size(); ++i) {
    const Json& e = expected.at(kNames[i]);
    const Json& head = Own(summary, i);
    EXPECT_EQ(head.at("mean_delta_p").at("value"), e.at("mean_delta_p")) << kNames[i];
    EXPECT_EQ(head.at("rms_delta_p"), e.at("rms_delta_p")) << kNames[i];
    EXPECT_EQ(head.at("same_top1").at("fraction"), e.at("same_top1")) << kNames[i];
    const Json& ratio = head.at("ln_perplexity_ratio");
    EXPECT_EQ(ratio.at("mean"), e.at("ln_perplexity_ratio")) << kNames[i];
    EXPECT_EQ(ratio.at("ratio"), e.at("perplexity_ratio")) << kNames[i];
    EXPECT_EQ(ratio.at("context_bootstrap").at("ci95_low"), e.at("ln_perplexity_ratio_ci95")[0]);
    EXPECT_EQ(ratio.at("context_bootstrap").at("ci95_high"), e.at("ln_perplexity_ratio_ci95")[1]);
  }
}

void ExpectVersus(const Json& versus, const std::string& label, const Json& expected,
                  const char* simultaneous, uint64_t comparisons) {
  EXPECT_EQ(versus.at("label"), label);
  const Json& c = versus.at("comparison");
  EXPECT_EQ(c.at("difference_a_minus_b"), expected.at("difference"));
  EXPECT_EQ(c.at("bootstrap_difference").at("ci95_low"), expected.at("ci95")[0]);
  EXPECT_EQ(c.at("bootstrap_difference").at("ci95_high"), expected.at("ci95")[1]);
  EXPECT_EQ(c.at("simultaneous").at("comparisons"), comparisons);
  EXPECT_EQ(c.at("simultaneous").at("ci95_low"), expected.at(simultaneous)[0]);
  EXPECT_EQ(c.at("simultaneous").at("ci95_high"), expected.at(simultaneous)[1]);
  EXPECT_EQ(c.at("distinguishable"), true);
  EXPECT_EQ(c.at("simultaneous").at("distinguishable"), true);
}

TEST(Versus, TheBestOneUnlessAnotherIsNamed) {
  const Json expected = Expected().at("versus");
  const Json best = Must(BuildSummary(Three())).json;
  EXPECT_EQ(best.at("schema"), "assay-summary/2");
  EXPECT_EQ(best.at("versus"), nullptr);
  EXPECT_EQ(best.at("baselines").at("own"), "int8-channel");
  EXPECT_EQ(Own(best, 1).at("versus"), nullptr);
  ExpectVersus(Own(best, 0).at("versus"), "int8-channel",
               expected.at("int4-g32 minus int8-channel"), "ci95_of_two", 2);
  ExpectVersus(Own(best, 2).at("versus"), "int8-channel", expected.at("q4_0 minus int8-channel"),
               "ci95_of_two", 2);
  SummaryOptions options;
  options.versus = "q4_0";
  const Json named = Must(BuildSummary(Three(), options)).json;
  EXPECT_EQ(named.at("versus"), "q4_0");
  EXPECT_EQ(Own(named, 2).at("versus"), nullptr);
  ExpectVersus(Own(named, 0).at("versus"), "q4_0", expected.at("int4-g32 minus q4_0"),
               "ci95_of_two", 2);
  ExpectVersus(Own(named, 1).at("versus"), "q4_0", expected.at("int8-channel minus q4_0"),
               "ci95_of_two", 2);
  // All pairs are three comparisons.
  EXPECT_EQ(named.at("pairs")[1].at("comparison").at("simultaneous").at("comparisons"), 3u);
  EXPECT_EQ(named.at("pairs")[1].at("comparison").at("simultaneous").at("ci95_low"),
            expected.at("int4-g32 minus q4_0").at("ci95_of_three")[0]);
  options.versus = "q4";
  EXPECT_EQ(ReasonOf(BuildSummary(Three(), options).status()), "LABEL_UNKNOWN");
}

TEST(Versus, EqualCandidatesAndDifferencesBelowTheNoiseCannotBeToldApart) {
  const Json same =
      Must(BuildSummary({Candidate("a", "int4-g32"), Candidate("b", "int4-g32")})).json;
  EXPECT_EQ(same.at("baselines").at("own"), "a");
  const Json& c = Own(same, 1).at("versus").at("comparison");
  EXPECT_EQ(c.at("difference_a_minus_b"), 0.0);
  EXPECT_EQ(c.at("distinguishable"), false);
  // 0.13 nats between them, and an engine whose repeats differ by 0.2.
  ReportInputs noisy = SmolInputs("q4_0");
  noisy.repeats[0].contexts[0].repeat_sha256 = Sha256Hex("another");
  noisy.repeats[0].kl_of_differing.assign(63, 0.4);
  SummaryCandidate candidate = Candidate("noisy", "q4_0");
  candidate.report = Must(BuildReport(noisy));
  const Json floor = Must(BuildSummary({Candidate("int4", "int4-g32"), candidate})).json;
  const Json& n = Own(floor, 0).at("versus").at("comparison");
  EXPECT_GT(n.at("bootstrap_difference").at("ci95_low").get<double>(), 0.0);
  EXPECT_EQ(n.at("smallest_resolvable_difference"), 0.2);
  EXPECT_EQ(n.at("distinguishable"), false);
}

TEST(Versus, WithoutAnIntervalNothingIsClaimed) {
  std::vector<SummaryCandidate> candidates;
  for (const char* name : {"int4-g32", "q4_0"}) {
    ReportInputs inputs = SmolInputs(name);
    for (ReportContext& context : inputs.contexts) context.source_cluster = context.stratum;
    SummaryCandidate candidate = Candidate(name, name);
    candidate.report = Must(BuildReport(inputs));
    candidates.push_back(candidate);
  }
  const Summary summary = Must(BuildSummary(candidates));
  const Json& c = Own(summary.json, 0).at("versus").at("comparison");
  EXPECT_EQ(c.at("distinguishable"), nullptr);
  EXPECT_EQ(c.at("simultaneous").at("distinguishable"), nullptr);
  EXPECT_THAT(summary.table, HasSubstr("distinguishable: not known"));
}

TEST(Versus, OneThatFailedOrIsNotComparableSaysSo) {
  std::vector<SummaryCandidate> candidates = Three();
  ReportInputs other = SmolInputs("q4_0");
  other.reference.capture.content_sha256 = Sha256Hex("another");
  candidates[2].report = Must(BuildReport(other));
  SummaryCandidate failed;
  failed.label = "bad";
  failed.failed_reason = "GGUF_INVALID";
  failed.failed_message = "x.gguf: is cut short";
  candidates.push_back(failed);
  SummaryOptions options;
  const Summary best = Must(BuildSummary(candidates));
  EXPECT_THAT(Own(best.json, 2).at("versus").at("not_comparable").get<std::string>(),
              HasSubstr("reference captures differ"));
  EXPECT_EQ(Own(best.json, 2).at("versus").at("comparison"), nullptr);
  EXPECT_THAT(best.table, HasSubstr("not comparable"));
  options.versus = "bad";
  const Json json = Must(BuildSummary(candidates, options)).json;
  EXPECT_EQ(json.at("baselines").at("own"), nullptr);
  EXPECT_EQ(Own(json, 0).at("versus"), nullptr);
}

std::vector<SummaryCandidate> Ten() {
  std::vector<SummaryCandidate> out;
  for (size_t i = 0; i < 10; ++i) {
    SummaryCandidate candidate = Three()[i % 3];
    candidate.label =
        i == 7 ? "SmolLM2-135M-Instruct.Q4_1-requantized-q4_0" : "candidate-" + std::to_string(i);
    out.push_back(std::move(candidate));
  }
  return out;
}

TEST(ManyCandidates, HaveARowEachAndFitTheTerminal) {
  const Summary summary = Must(BuildSummary(Ten()));
  for (const size_t columns : {60u, 80u, 100u, 140u}) {
    const std::string table = SummaryTable(summary.json, columns);
    for (const char* text : {"Mean KLD", "Same top", "(nats)", "candidate-0", "candidate-9",
                             "SmolLM2-135M-Instruct.Q4_1-requantized-q4_0", "guishable"}) {
      EXPECT_THAT(table, HasSubstr(text)) << columns;
    }
    std::istringstream lines(table);
    size_t rows = 0;
    for (std::string line; std::getline(lines, line);) {
      const bool receipt = line.find("/  UNSEALED") != std::string::npos;
      EXPECT_TRUE(receipt || line.size() <= columns) << line;
      rows += line.rfind("candidate-3", 0) == 0 && !receipt;
    }
    EXPECT_EQ(rows, 2u) << table;  // its figures, and its difference to the best
  }
  EXPECT_THAT(summary.table, HasSubstr("9 comparisons were made"));
  EXPECT_THAT(summary.table, HasSubstr("Mean KLD minus that of candidate-1 (positive"));
  EXPECT_THAT(summary.table, HasSubstr("--versus LABEL"));
  EXPECT_THAT(summary.table, HasSubstr("All 45 pairs"));
  EXPECT_THAT(summary.table, Not(HasSubstr("candidate-0 minus candidate-1")));
  EXPECT_THAT(summary.md, HasSubstr("| 99.9% KLD (nats) |"));
  EXPECT_THAT(summary.md, HasSubstr("| PPL(Q)/PPL(base) |"));
}

TEST(ManyCandidates, AreSortedByMeanDivergence) {
  const std::string table = Must(BuildSummary(Three())).table;
  const size_t best = table.find("\nint8-channel "), second = table.find("\nq4_0 "),
               last = table.find("\nint4-g32 ");
  ASSERT_NE(best, std::string::npos);
  EXPECT_LT(best, second);
  EXPECT_LT(second, last);
  EXPECT_THAT(table, HasSubstr("Reference: 98.4 MB; bits per weight: body 5, head 8.5, "
                               "embedding 8.5"));
}

TEST(TwoCandidates, StandOneBelowTheOtherWhereTheTerminalIsNarrow) {
  const Summary summary =
      Must(BuildSummary({Candidate("int8", "int8-channel"), Candidate("int4", "int4-g32")}));
  const std::string narrow = SummaryTable(summary.json, 70);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 70u) << line;
  EXPECT_THAT(narrow, HasSubstr("RMS delta p (%)                    15.777"));
  EXPECT_THAT(narrow, HasSubstr("  distinguishable                  yes"));
  EXPECT_THAT(narrow, HasSubstr("PPL(Q)/PPL(base)                   1.00435"));
}

}  // namespace
}  // namespace assay
