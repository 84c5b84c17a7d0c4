#include "storage/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SummaryCandidate Candidate(const std::string& label, const std::string& candidate,
                           const std::string& receipt) {
  SummaryCandidate out;
  out.label = label;
  out.report = Must(BuildReport(SmolInputs(candidate)));
  out.report_sha256 = Sha256Hex(Must(ReportBytes(out.report)));
  out.receipt_id = receipt;
  return out;
}

std::vector<SummaryCandidate> Two() {
  return {Candidate("int8", "int8-channel", Sha256Hex("receipt")),
          Candidate("int4", "int4-g32", "")};
}

TEST(Summary, ColumnsAreAsWideAsLabelsWhereTheTerminalIs) {
  const std::string label = "model-7b-instruct-quantized-w4a16-groups-of-128";
  const Summary summary =
      Must(BuildSummary({Candidate(label, "int8-channel", ""), Candidate("b", "int4-g32", "")}));
  EXPECT_THAT(SummaryTable(summary.json, 140),
              HasSubstr("as served" + std::string(26, ' ') + label));
  EXPECT_THAT(SummaryTable(summary.json, 100),
              HasSubstr("as served" + std::string(26, ' ') + label.substr(0, 31) + "  b\n"));
}

TEST(Summary, TableShowsTheKnownAnswersAndFits) {
  const Summary summary = Must(BuildSummary(Two()));
  for (const char* text : {"as served",
                           "int8",
                           "int4",
                           "Mean KLD (nats)",
                           "0.00419756",
                           "0.535827",
                           "[0.00360647, 0.00488035]",
                           "[0.437477, 0.65509]",
                           "Median KLD (nats)",
                           "99% KLD (nats)",
                           "99.9% KLD (nats)",
                           "Maximum KLD (nats)",
                           "Reverse KLD (nats)",
                           "JSD (bits)",
                           "Same top (%)",
                           "96.23",
                           "PPL(base)",
                           "PPL(Q)",
                           "Mean KLD, code (nats)",
                           "Mean KLD, structured (nats)",
                           "2/2 equal, KLD 0",
                           "98.4 MB",
                           "Bits per weight, body",
                           "Worst contexts",
                           "int8/report.json",
                           "UNSEALED",
                           "int8 minus int4",
                           "lower in 8"}) {
    EXPECT_THAT(summary.table, HasSubstr(text));
  }
  EXPECT_THAT(summary.table, HasSubstr(Sha256Hex("receipt")));
  std::istringstream lines(summary.table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Summary, LongLabelsCanBeToldApartAboveTheTable) {
  const std::string stem = "SmolLM2-135M-Instruct.Q4_1-rtn-";  // 31 characters, all of a column
  const Summary summary =
      Must(BuildSummary({Candidate(stem + "bits8-groupchannel", "int8-channel", ""),
                         Candidate(stem + "bits4-group32", "int4-g32", "")}));
  EXPECT_THAT(summary.table, HasSubstr("as served                          " + stem + "  " + stem +
                                       "\n" + std::string(35, ' ') + "bits8-groupchannel" +
                                       std::string(15, ' ') + "bits4-group32\n-----"));
}

TEST(Labels, AreSplitFromFilesOnlyWhereTheyAreLabels) {
  const std::string folder = ::testing::TempDir() + "/labels=1";
  ASSERT_TRUE(EnsureDirectory(folder).ok());
  const auto parsed = [](const std::string& text) {
    const auto split = SplitLabel(text);
    return split.ok() ? split->label + "|" + split->value : ReasonOf(split.status());
  };
  EXPECT_EQ(parsed("a=b"), "a|b");
  EXPECT_EQ(parsed("a=b=c"), "a|b=c");
  EXPECT_EQ(parsed("plain"), "|plain");
  EXPECT_EQ(parsed("int4.g_32-x=/p@rtn:bits=4"), "int4.g_32-x|/p@rtn:bits=4");
  EXPECT_EQ(parsed("path/x=1"), "|path/x=1");
  EXPECT_EQ(parsed("m.gguf@rtn:bits=4"), "|m.gguf@rtn:bits=4");
  EXPECT_EQ(parsed(folder), "|" + folder);
  for (const std::string label : {"", "a b", "..", "summary.json"}) {
    EXPECT_EQ(parsed(label + "=b"), "LABEL_INVALID") << label;
  }
  EXPECT_EQ(parsed("a/b=" + folder), "LABEL_INVALID");
  EXPECT_EQ(parsed("a@b=" + folder + "@awq"), "LABEL_INVALID");
}

TEST(Summary, JsonHoldsWhatTheTableShows) {
  const Json json = Must(BuildSummary(Two())).json;
  EXPECT_EQ(json.at("schema"), "assay-summary/2");
  const Json& first = json.at("candidates")[0];
  EXPECT_EQ(first.at("label"), "int8");
  EXPECT_EQ(first.at("sealed"), true);
  EXPECT_EQ(first.at("heads").at("own").at("mean_kl_ref_cand").at("value"), 0.00419755859444959);
  EXPECT_EQ(first.at("heads").at("own").at("context_bootstrap").at("ci95_low"),
            0.0036064674399989708);
  EXPECT_EQ(json.at("candidates")[1].at("receipt_id"), nullptr);
  EXPECT_EQ(json.at("pairs")[0].at("comparison").at("a_wins"), 8);
}

TEST(Summary, CsvHasOneLinePerCandidateAndHead) {
  std::vector<SummaryCandidate> candidates = Two();
  SummaryCandidate failed;
  failed.label = "bad";
  failed.failed_reason = "GGUF_INVALID";
  failed.failed_message = "x.gguf: is cut short";
  candidates.push_back(failed);
  const std::string csv = Must(BuildSummary(candidates)).csv;
  std::istringstream lines(csv);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 4u);
  for (const std::string& line : all) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','),
              std::count(all[0].begin(), all[0].end(), ','));
  }
  EXPECT_THAT(all[1], HasSubstr("int8,own,scored,0.00419755859444959,0,0.0036064674399989708,"));
  EXPECT_THAT(all[3], HasSubstr("bad,,failed: GGUF_INVALID,"));
}

TEST(Summary, FailedCandidatesAndUncomparablePairsSayWhy) {
  std::vector<SummaryCandidate> candidates = Two();
  ReportInputs inputs = SmolInputs("q4_0");
  inputs.reference.capture.content_sha256 = Sha256Hex("another");
  candidates[1].report = Must(BuildReport(inputs));
  SummaryCandidate failed;
  failed.label = "bad";
  failed.failed_reason = "GGUF_INVALID";
  failed.failed_message = "x.gguf: is cut short";
  candidates.push_back(failed);
  const Summary summary = Must(BuildSummary(candidates));
  EXPECT_THAT(summary.table, HasSubstr("not comparable, their reference captures differ"));
  EXPECT_THAT(summary.table, HasSubstr("bad: FAILED [GGUF_INVALID] x.gguf: is cut short"));
  EXPECT_EQ(summary.json.at("candidates")[2].at("failed").at("reason"), "GGUF_INVALID");
}

TEST(Summary, BothHeadsGetTheirOwnTable) {
  ReportInputs inputs = SmolInputs("int4-g32");
  inputs.heads["shared"] = {TestHead(), TestHead(), SmolArrays("q4_0")};
  SummaryCandidate candidate = Two()[0];
  candidate.report = Must(BuildReport(inputs));
  const Summary summary = Must(BuildSummary({candidate}));
  EXPECT_THAT(summary.table, HasSubstr("as served"));
  EXPECT_THAT(summary.table, HasSubstr("body only"));
  EXPECT_THAT(summary.table, HasSubstr("0.401256"));
  EXPECT_THAT(summary.md, HasSubstr("| Mean KLD (nats) |"));
}

TEST(Summary, LabelsAreCheckedAndUnique) {
  std::vector<SummaryCandidate> candidates = Two();
  candidates[1].label = candidates[0].label;
  EXPECT_EQ(ReasonOf(BuildSummary(candidates).status()), "SUMMARY_INVALID");
  for (const char* bad : {"", ".", "..", "a/b", "a b", "summary.json", "caf\xC3\xA9"}) {
    EXPECT_EQ(ReasonOf(CheckLabel(bad)), "LABEL_INVALID") << bad;
  }
  EXPECT_TRUE(CheckLabel("Model-1.Q4_1.gguf").ok());
}

TEST(Summary, AnUnsealedRunLeavesNoKeyOfAnEarlierOne) {
  const std::string out = ::testing::TempDir() + "/summary_files";
  std::vector<SummaryCandidate> candidates = Two();
  const Summary summary = Must(BuildSummary(candidates));
  ASSERT_TRUE(WriteSummaryFiles(out, summary, candidates, "PEM").ok());
  EXPECT_THAT(Must(ReadFile(out + "/VERIFY.md", 1 << 20)), HasSubstr("cd 'int8'"));
  EXPECT_THAT(Must(ReadFile(out + "/VERIFY.md", 1 << 20)), Not(HasSubstr("cd 'int4'")));
  EXPECT_EQ(Must(ReadFile(out + "/key.pub", 100)), "PEM");
  EXPECT_EQ(Must(ReadJsonFile(out + "/summary.json")), summary.json);
  candidates[0].receipt_id = "";
  ASSERT_TRUE(WriteSummaryFiles(out, Must(BuildSummary(candidates)), candidates, "").ok());
  EXPECT_FALSE(FileExists(out + "/VERIFY.md"));
  EXPECT_FALSE(FileExists(out + "/key.pub"));
}

TEST(CandidateFiles, ArraysComeBackAndOldFilesGo) {
  const std::string out = ::testing::TempDir() + "/candidate_files";
  ASSERT_TRUE(RemoveTree(out).ok());
  const PositionArrays arrays = SmolArrays("int4-g32");
  CandidateFiles files{"{}", "{\"e\":1}", "{\"r\":1}", {{"own", &arrays}, {"shared", &arrays}}};
  ASSERT_TRUE(WriteCandidateFiles(out, "a", files).ok());
  EXPECT_TRUE(FileExists(out + "/a/receipt.json"));
  const PositionArrays back = Must(ReadPositionFolder(out + "/a/positions/shared", 504));
  EXPECT_EQ(back.f64, arrays.f64);
  EXPECT_EQ(back.i32, arrays.i32);
  EXPECT_EQ(*FileSize(out + "/a/positions/own/kl_ref_cand.f64"), 504u * 8);
  EXPECT_FALSE(ReadPositionFolder(out + "/a/positions/own", 505).ok());
  files.receipt.reset();
  files.heads.erase("shared");
  ASSERT_TRUE(WriteCandidateFiles(out, "a", files).ok());
  EXPECT_FALSE(FileExists(out + "/a/receipt.json"));
  EXPECT_FALSE(FileExists(out + "/a/positions/shared"));
}

TEST(AssemblePositions, JoinsUnitsInSuiteOrderAndNoticesGaps) {
  const PositionArrays whole = SmolArrays("int4-g32");
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  std::vector<std::string> kept(2);
  for (int unit = 0; unit < 2; ++unit) {
    SafetensorsBuilder builder;
    for (int c = 7 - unit * 4; c > 3 - unit * 4; --c) {  // later contexts first
      const auto add = [&](std::string_view output, DType dtype, auto values) {
        const std::string name = "cand0/own|00000" + std::to_string(c) + "|" + std::string(output);
        builder.Add(name, dtype, {63},
                    {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()});
      };
      const size_t begin = static_cast<size_t>(c) * 63;
      for (size_t o = 0; o < kF64Outputs.size(); ++o) {
        add(kF64Outputs[o], DType::kF64, std::span(whole.f64[o]).subspan(begin, 63));
      }
      for (size_t o = 0; o < kI32Outputs.size(); ++o) {
        add(kI32Outputs[o], DType::kI32, std::span(whole.i32[o]).subspan(begin, 63));
      }
    }
    kept[unit] = builder.Build();
    files.push_back(Must(SafetensorsFile::Parse(
        {reinterpret_cast<const uint8_t*>(kept[unit].data()), kept[unit].size()}, "unit")));
  }
  std::vector<ContextRows> contexts;
  for (int64_t i = 0; i < 8; ++i) contexts.push_back({i, 63});
  const PositionArrays joined = Must(AssemblePositions(files, "cand0/own", contexts));
  EXPECT_EQ(joined.f64, whole.f64);
  EXPECT_EQ(joined.i32, whole.i32);
  EXPECT_EQ(joined.positions, 504u);
  contexts.push_back({8, 63});
  EXPECT_EQ(ReasonOf(AssemblePositions(files, "cand0/own", contexts).status()),
            "POSITIONS_INVALID");
  contexts.pop_back();
  contexts[2].rows = 62;
  EXPECT_EQ(ReasonOf(AssemblePositions(files, "cand0/own", contexts).status()),
            "POSITIONS_INVALID");
  contexts[2].rows = 63;
  files.push_back(files[0]);
  EXPECT_EQ(ReasonOf(AssemblePositions(files, "cand0/own", contexts).status()),
            "POSITIONS_INVALID");
}

}  // namespace
}  // namespace assay
