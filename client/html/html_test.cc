// Pages of results made from the known answers of tests/data/smollm2. What a page must say is
// worked out here from the arrays, in the plainest way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "client/html/assets.h"
#include "client/html/escape.h"
#include "client/html/head_scan.h"
#include "client/html/token_text.h"
#include "client/html/write_pages.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report_test_data.h"
#include "storage/report/summary.h"
#include "storage/seal/encoding.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kHostile[] = "</script><img src=x onerror=alert(1)>\xe2\x80\xae\"'&\x01";

TEST(Escape, TextCannotBecomeMarkupOrMoveOther) {
  EXPECT_EQ(HtmlText("<b a=\"1\" c='2'>&"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
  EXPECT_EQ(HtmlText("a\x01\x7f\xc2\x85\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf"),
            "a\\u{0001}\\u{007F}\\u{0085}\\u{202E}\\u{2066}\\u{FEFF}");
  EXPECT_EQ(HtmlText("na\xc3\xafve \xe2\x9c\x93 \xf0\x9f\x98\x80"),
            "na\xc3\xafve \xe2\x9c\x93 \xf0\x9f\x98\x80");
  EXPECT_EQ(HtmlText("\xf3\xa0\x81\x81\xff"), "\\u{E0041}?");
}

TEST(Escape, TokensShowBlanksAndBytes) {
  EXPECT_EQ(HtmlToken(" the "), "\xe2\x90\xa3the\xe2\x90\xa3");
  EXPECT_EQ(HtmlToken("a b\n\t\xe2\x82"), "a b\\n\\t\\xE2\\x82");
  EXPECT_EQ(HtmlToken("<|im_start|>"), "&lt;|im_start|&gt;");
}

TEST(Escape, ScriptJsonParsesBackAndEndsNoElement) {
  const Json value = {{"b", kHostile}, {"a", "\xf3\xa0\x81\x81\xe2\x80\xa8"}, {"n", 0.1}};
  const std::string text = Must(ScriptJson(value));
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_THAT(text, Not(HasSubstr("\xe2\x80")));
  EXPECT_THAT(text, HasSubstr("\\udb40\\udc41"));
  EXPECT_EQ(text.rfind("{\"a\":", 0), 0u) << "keys are sorted";
  EXPECT_TRUE(Must(ParseJson(text, "x")) == Json::parse(Must(CanonicalJson(value))));
}

TEST(TokenText, PiecesBecomeBytes) {
  EXPECT_EQ(ByteLevelText("\xc4\xa0hello\xc4\x8a"), " hello\n");         // GPT-2: U+0120, U+010A
  EXPECT_EQ(ByteLevelText("\xc3\xa2\xc4\xbe\xc4\xb5"), "\xe2\x9c\x93");  // U+2713 in three bytes
  EXPECT_EQ(ByteLevelText("<|im_end|>"), "<|im_end|>");
  EXPECT_EQ(SentencePieceText("\xe2\x96\x81hello\xe2\x96\x81"), " hello ");
  EXPECT_EQ(SentencePieceText("<0x0A>"), "\n");
  EXPECT_EQ(SentencePieceText("<0xZZ>"), "<0xZZ>");
}

class Pages : public testing::Test {
 protected:
  void SetUp() override {
    out_ = testing::TempDir() + "/html-" + std::to_string(getpid());
    ASSERT_TRUE(RemoveTree(out_).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(out_).ok()); }

  // One candidate from the fixture's arrays, its strata renamed.
  SummaryCandidate Write(const std::string& label, const std::string& name,
                         const std::string& stratum) {
    ReportInputs inputs = SmolInputs(name);
    if (!stratum.empty()) inputs.contexts[0].stratum = stratum;
    SummaryCandidate candidate;
    candidate.label = label;
    candidate.report = Must(BuildReport(inputs));
    CandidateFiles files;
    files.report = Must(ReportBytes(candidate.report));
    files.execution = "{}";
    files.heads["own"] = &inputs.heads.at("own").arrays;
    candidate.report_sha256 = Sha256Hex(files.report);
    EXPECT_TRUE(WriteCandidateFiles(out_, label, files).ok());
    return candidate;
  }
  void WriteRun(const std::string& stratum = "") {
    std::vector<SummaryCandidate> candidates = {Write("int4", "int4-g32", stratum),
                                                Write("int8", "int8-channel", stratum)};
    SummaryCandidate failed;
    failed.label = "broken";
    failed.failed_reason = "MODEL_INVALID";
    failed.failed_message = kHostile;
    candidates.push_back(failed);
    const Summary summary = Must(BuildSummary(candidates));
    ASSERT_TRUE(WriteSummaryFiles(out_, summary, candidates, "").ok());
  }
  std::string Page(const std::string& name) {
    return Must(ReadFile(out_ + "/" + name, kPageBytesMax));
  }
  PagesRequest Request() { return {out_, "", SmolDir() + "/suite", ""}; }

  static Json Data(const std::string& page) {
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const size_t begin = page.find(open) + open.size();
    return Must(ParseJson(page.substr(begin, page.find("</script>", begin) - begin), "data"));
  }

  std::string out_;
};

TEST_F(Pages, FiguresHoldWhatTheArraysGive) {
  WriteRun();
  const PagesWritten written = Must(WritePages(Request()));
  EXPECT_EQ(written.index, out_ + "/index.html");
  ASSERT_EQ(written.pages.size(), 2u);
  const PositionArrays arrays = SmolArrays("int4-g32");
  const std::vector<double>& kl = arrays[F64Output::kKlRefCand];
  const Json head = Data(Page("int4/report.html")).at("heads").at("own");

  // Every position once, in the buckets of the report and in the bins of the curve.
  uint64_t total = 0;
  for (const Json& entry : head.at("distribution").at("counts")) total += entry[1].get<uint64_t>();
  EXPECT_EQ(total, kl.size());
  for (const Json& bin : head.at("curve")) {
    std::vector<double> inside;
    for (size_t i = 0; i < kl.size(); ++i) {
      if (i % 63 >= bin[0].get<uint64_t>() && i % 63 <= bin[1].get<uint64_t>())
        inside.push_back(kl[i]);
    }
    ASSERT_EQ(bin[2].get<size_t>(), inside.size());
    EXPECT_NEAR(bin[3].get<double>(),
                std::accumulate(inside.begin(), inside.end(), 0.0) / double(inside.size()), 1e-13);
    EXPECT_EQ(bin[4].get<double>(), *std::max_element(inside.begin(), inside.end()));
  }
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(head.at("contexts")[c][3].get<double>(),
              *std::max_element(kl.begin() + 63 * c, kl.begin() + 63 * (c + 1)));
  }
}

TEST_F(Pages, TheWorstPositionsAreThoseOfASort) {
  WriteRun();
  const Json report = Must(ReadJsonFile(out_ + "/int4/report.json"));
  const Json& head = report.at("heads").at("own");
  const HeadScan scan =
      Must(ScanHead(out_ + "/int4/positions/own", head.at("contexts"), head.at("arrays"), 5));
  const PositionArrays arrays = SmolArrays("int4-g32");
  const std::vector<double>& kl = arrays[F64Output::kKlRefCand];
  std::vector<size_t> order(kl.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return kl[a] > kl[b]; });
  ASSERT_EQ(scan.worst.size(), 50u);
  for (size_t i = 0; i < 50; ++i) {
    const WorstPosition& w = scan.worst[i];
    EXPECT_EQ(w.context * 63 + w.position - 5, order[i]);
    EXPECT_EQ(w.kl, kl[order[i]]);
    EXPECT_EQ(w.nll_cand, arrays[F64Output::kNllCand][order[i]]);
    EXPECT_EQ(w.top1_cand, arrays[I32Output::kTop1Cand][order[i]]);
  }
  EXPECT_EQ(scan.curve.front().first, 5u) << "positions left out by score_from count";
}

TEST_F(Pages, ChangedFilesAreRefused) {
  WriteRun();
  const std::string array = out_ + "/int4/positions/own/nll_ref.f64";
  std::string bytes = Must(ReadFile(array, 1 << 20));
  bytes[3] ^= 1;
  ASSERT_TRUE(WriteFile(array, bytes).ok());
  EXPECT_EQ(ReasonOf(WritePages(Request()).status()), "DIGEST_MISMATCH");
  ASSERT_TRUE(WriteFile(array, bytes.substr(8)).ok());
  EXPECT_EQ(ReasonOf(WritePages(Request()).status()), "POSITIONS_INVALID");
  ASSERT_TRUE(RemoveTree(array).ok());
  ASSERT_EQ(::mkfifo(array.c_str(), 0600), 0);  // an open of it would wait for a writer
  EXPECT_EQ(ReasonOf(WritePages(Request()).status()), "FILE_NOT_REGULAR");
  ASSERT_TRUE(RemoveTree(array).ok());
  WriteRun();
  ASSERT_TRUE(
      WriteFile(out_ + "/int8/report.json", Must(ReadFile(out_ + "/int4/report.json", 1 << 24)))
          .ok());
  EXPECT_EQ(ReasonOf(WritePages(Request()).status()), "SUMMARY_MISMATCH");
  ASSERT_TRUE(RemoveTree(out_ + "/summary.json").ok());
  EXPECT_EQ(ReasonOf(WritePages(Request()).status()), "FILE_MISSING");
}

TEST_F(Pages, AnotherSuiteIsRefused) {
  WriteRun();
  PagesRequest request = Request();
  request.suite = std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/deploy/panel/suite";
  EXPECT_EQ(ReasonOf(WritePages(request).status()), "SUITE_MISMATCH");
  request.suite = out_;
  EXPECT_EQ(ReasonOf(WritePages(request).status()), "FILE_MISSING");
  request = Request();
  request.tokens = SmolDir() + "/suite/suite-manifest.json";
  EXPECT_EQ(ReasonOf(WritePages(request).status()), "TOKENIZER_INVALID");
  request.tokens = out_ + "/weights.safetensors";  // no JSON either
  ASSERT_TRUE(WriteFile(request.tokens, std::string("\x10\0\0\0\0\0\0\0{}", 10)).ok());
  const absl::Status wrong = WritePages(request).status();
  EXPECT_EQ(ReasonOf(wrong), "TOKENIZER_INVALID");
  EXPECT_THAT(MessageOf(wrong), HasSubstr("give a GGUF file or a tokenizer.json"));
}

TEST_F(Pages, HostileTextStaysText) {
  WriteRun(kHostile);
  ASSERT_TRUE(WritePages(Request()).ok());
  for (const std::string name : {"index.html", "int4/report.html"}) {
    const std::string page = Page(name);
    EXPECT_THAT(page, Not(HasSubstr("<img"))) << name;
    EXPECT_THAT(page, Not(HasSubstr("\xe2\x80\xae"))) << name;
    EXPECT_THAT(
        page,
        HasSubstr(
            "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;\\u{202E}&quot;&#39;&amp;\\u{0001}"))
        << name;
  }
  EXPECT_EQ(Data(Page("int4/report.html")).at("heads").at("own").at("strata_names")[0], kHostile);
}

// Only these scripts and this style, by digest, and nothing from anywhere else.
TEST_F(Pages, ThePolicyNamesWhatIsInThePage) {
  WriteRun();
  ASSERT_TRUE(WritePages(Request()).ok());
  const std::string page = Page("int4/report.html");
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none';"));
  for (const std::string_view text : {D3Script(), CommonScript(), CandidateScript(), PageStyle()}) {
    const DigestBytes digest = Sha256Of(text);
    EXPECT_THAT(page, HasSubstr("'sha256-" +
                                Base64({reinterpret_cast<const char*>(digest.data()), 32}) + "'"));
    EXPECT_THAT(page, HasSubstr(">" + std::string(text) + "</s"));
  }
  EXPECT_THAT(page, Not(HasSubstr("unsafe")));
  EXPECT_THAT(page, HasSubstr("Redistributions in binary form"));
}

TEST_F(Pages, AreAFunctionOfTheFilesAndMayLieElsewhere) {
  WriteRun();
  ASSERT_TRUE(WritePages(Request()).ok());
  const std::string first = Page("index.html"), candidate = Page("int8/report.html");
  PagesRequest request = Request();
  request.dir = out_ + "/pages";
  EXPECT_EQ(Must(WritePages(request)).index, out_ + "/pages/index.html");
  EXPECT_EQ(Page("pages/index.html"), first);
  EXPECT_EQ(Page("pages/int8/report.html"), candidate);
}

}  // namespace
}  // namespace assay
