#include "storage/seal/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/status.h"
#include "storage/seal/seal_test_data.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class VerifyFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    out_ = ::testing::TempDir() + "/verify_folder";
    signer_ = TestSigner();
    WriteTestRun(out_, *signer_);
    key_ = ::testing::TempDir() + "/trusted.pub";
    ASSERT_TRUE(WriteFile(key_, signer_->public_key().pem()).ok());
  }
  static std::string Failures(const Verification& v) {
    std::string out;
    for (const Gate& gate : v.gates) {
      if (gate.state == GateState::kFail) {
        out += gate.subject + " " + gate.name + " [" + gate.reason + "] " + gate.message + "\n";
      }
    }
    return out;
  }
  // Every `step`-th byte of the file flipped in turn must fail, naming the file.
  void ExpectFlipsNoticed(const std::string& file, size_t step) {
    const std::string path = out_ + "/" + file;
    const std::string bytes = Must(ReadFile(path, 1 << 28));
    ASSERT_FALSE(bytes.empty());
    for (size_t i = 0; i < bytes.size(); i += step) {
      std::string bent = bytes;
      bent[i] = static_cast<char>(bent[i] ^ (1 << (i % 8)));
      ASSERT_TRUE(WriteFile(path, bent).ok());
      const Verification v = VerifyDirectory(out_ + "/int4", "");
      ASSERT_EQ(v.verdict, Verdict::kFailed) << file << " byte " << i;
      ASSERT_THAT(Failures(v), HasSubstr(BaseName(file))) << file << " byte " << i;
    }
    ASSERT_TRUE(WriteFile(path, bytes).ok());
  }
  std::string out_, key_;
  std::unique_ptr<Signer> signer_;
};

TEST_F(VerifyFolder, GoodRunsVerify) {
  const Verification trusted = VerifyDirectory(out_, key_);
  EXPECT_EQ(trusted.verdict, Verdict::kValid) << trusted.ToText();
  EXPECT_EQ(trusted.receipt_ids.size(), 2u);
  const Verification unknown = VerifyDirectory(out_ + "/", "");
  EXPECT_EQ(unknown.verdict, Verdict::kValidUnknownKey) << unknown.ToText();
  EXPECT_EQ(VerifyDirectory(out_ + "/int4", key_).verdict, Verdict::kValid);
  EXPECT_EQ(VerifyDirectory(out_ + "/int4/receipt.json", key_).verdict, Verdict::kValid);
  std::vector<std::string> passed;
  for (const Gate& gate : VerifyDirectory(out_ + "/int4", key_).gates) {
    if (gate.state == GateState::kPass) passed.push_back(gate.name);
  }
  EXPECT_THAT(passed,
              ::testing::IsSupersetOf({"receipt-form", "key", "signature", "statement", "inclusion",
                                       "checkpoint-signature", "report-digest", "report-inputs",
                                       "execution-digest", "public-key-file", "report-form",
                                       "arrays/own", "statistics/own", "statistics/across-heads"}));
}

TEST_F(VerifyFolder, ALoneReceiptVerifiesByItself) {
  const std::string alone = ::testing::TempDir() + "/alone";
  ASSERT_TRUE(RemoveTree(alone).ok());
  ASSERT_TRUE(EnsureDirectory(alone).ok());
  ASSERT_TRUE(
      WriteFile(alone + "/r.json", Must(ReadFile(out_ + "/int4/receipt.json", 1 << 20))).ok());
  EXPECT_EQ(VerifyDirectory(alone + "/r.json", key_).verdict, Verdict::kValid);
  EXPECT_EQ(VerifyDirectory(alone + "/r.json", "").verdict, Verdict::kValidUnknownKey);
}

TEST_F(VerifyFolder, EveryFlippedByteOfSmallFiles) {
  ExpectFlipsNoticed("int4/execution.json", 1);
  ExpectFlipsNoticed("int4/receipt.json", 61);
  ExpectFlipsNoticed("key.pub", 5);
}

TEST_F(VerifyFolder, SampledBytesOfLargeFiles) {
  ExpectFlipsNoticed("int4/report.json", 1009);
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    ExpectFlipsNoticed("int4/positions/own/" + PositionFileName(static_cast<F64Output>(i)), 997);
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    ExpectFlipsNoticed("int4/positions/own/" + PositionFileName(static_cast<I32Output>(i)), 499);
  }
}

TEST_F(VerifyFolder, MissingAndCutFilesAreNamed) {
  for (const std::string file :
       {"report.json", "execution.json", "receipt.json", "positions/own/jsd_bits.f64"}) {
    WriteTestRun(out_, *signer_);
    const std::string path = out_ + "/int4/" + file;
    const std::string bytes = Must(ReadFile(path, 1 << 28));
    ASSERT_TRUE(WriteFile(path, std::string_view(bytes).substr(0, bytes.size() - 1)).ok());
    EXPECT_THAT(Failures(VerifyDirectory(out_, key_)), HasSubstr(file));
    ASSERT_TRUE(RemoveTree(path).ok());
    const Verification v = VerifyDirectory(out_, key_);
    EXPECT_EQ(v.verdict, Verdict::kFailed);
    EXPECT_THAT(Failures(v), HasSubstr(file));
  }
}

TEST_F(VerifyFolder, NoReceiptIsUnsealed) {
  ASSERT_TRUE(RemoveTree(out_ + "/int4/receipt.json").ok());
  EXPECT_THAT(Failures(VerifyDirectory(out_ + "/int4", key_)),
              HasSubstr("receipt [RECEIPT_MISSING]"));
}

TEST_F(VerifyFolder, AWholeRunWithAForgedStatisticIsFoundByRecomputing) {
  // Somebody with a key of their own seals a report that flatters; all digests and signatures fit.
  Json report = Must(BuildReport(SmolInputs("int4-g32")));
  report["heads"]["own"]["statistics"]["kl_ref_cand"]["mean"]["value"] = 0.001;
  const auto forger = TestSigner(9);
  TestLog log;
  const SealedBundle bundle = log.Seal(report, *forger);
  const PositionArrays arrays = SmolArrays("int4-g32");
  CandidateFiles files{
      Must(ReportBytes(report)), kTestExecution, bundle.receipt, {{"own", &arrays}}};
  const std::string out = ::testing::TempDir() + "/forged";
  ASSERT_TRUE(RemoveTree(out).ok());
  ASSERT_TRUE(WriteCandidateFiles(out, "int4", files).ok());
  const Verification v = VerifyDirectory(out, "");
  EXPECT_EQ(v.verdict, Verdict::kFailed);
  EXPECT_THAT(Failures(v), HasSubstr("statistics/own [REPORT_MISMATCH]"));
}

TEST_F(VerifyFolder, ASwappedReceiptOrKeyIsNoticed) {
  const std::string other = Must(ReadFile(out_ + "/int8/receipt.json", 1 << 20));
  ASSERT_TRUE(WriteFile(out_ + "/int4/receipt.json", other).ok());
  EXPECT_THAT(Failures(VerifyDirectory(out_, key_)),
              HasSubstr("int4 report-digest [DIGEST_MISMATCH]"));
  WriteTestRun(out_, *signer_);
  ASSERT_TRUE(WriteFile(out_ + "/key.pub", TestSigner(9)->public_key().pem()).ok());
  EXPECT_THAT(Failures(VerifyDirectory(out_, "")), HasSubstr("public-key-file [KEY_MISMATCH]"));
  ASSERT_TRUE(WriteFile(key_, TestSigner(9)->public_key().pem()).ok());
  EXPECT_EQ(VerifyDirectory(out_, key_).verdict, Verdict::kFailed);
}

TEST_F(VerifyFolder, ASummaryThatSaysOtherThingsIsNoticed) {
  std::string text = Must(ReadFile(out_ + "/summary.json", 1 << 20));
  const size_t at = text.find("0.00419755859444959");
  ASSERT_NE(at, std::string::npos);
  text[at + 2] = '1';
  ASSERT_TRUE(WriteFile(out_ + "/summary.json", text).ok());
  EXPECT_THAT(Failures(VerifyDirectory(out_, key_)), HasSubstr("summary [SUMMARY_MISMATCH]"));
}

// As the version before comparisons to one candidate wrote it.
TEST_F(VerifyFolder, ASummaryOfAnEarlierVersionIsComparedByWhatItHas) {
  Json old = Must(ReadJsonFile(out_ + "/summary.json"));
  old["schema"] = "assay-summary/1";
  old.erase("versus");
  old.erase("baselines");
  for (Json& candidate : old["candidates"]) {
    for (const char* key : {"versus", "ln_perplexity_ratio", "mean_delta_p"}) {
      candidate["heads"]["own"].erase(key);
    }
  }
  ASSERT_TRUE(WriteFile(out_ + "/summary.json", old.dump()).ok());
  ASSERT_TRUE(WriteFile(out_ + "/summary.md", "an older form").ok());
  const Verification v = VerifyDirectory(out_, key_);
  EXPECT_EQ(v.verdict, Verdict::kValid) << v.ToText();
  EXPECT_THAT(v.ToText(), HasSubstr("earlier version of assay"));
  old["candidates"][0]["heads"]["own"]["mean_accept_rate"]["value"] = 0.75;
  ASSERT_TRUE(WriteFile(out_ + "/summary.json", old.dump()).ok());
  EXPECT_THAT(Failures(VerifyDirectory(out_, key_)), HasSubstr("summary [SUMMARY_MISMATCH]"));
}

TEST_F(VerifyFolder, ASummaryAgainstAChosenCandidateVerifies) {
  std::vector<SummaryCandidate> candidates;
  const Json before = Must(ReadJsonFile(out_ + "/summary.json"));
  for (const Json& entry : before.at("candidates")) {
    SummaryCandidate candidate;
    candidate.label = entry.at("label");
    const std::string path = out_ + "/" + candidate.label + "/report.json";
    candidate.report = Must(ParseReport(Must(ReadFile(path, 1 << 24)), path));
    candidate.report_sha256 = entry.at("report_sha256");
    candidate.receipt_id = entry.at("receipt_id");
    candidates.push_back(std::move(candidate));
  }
  SummaryOptions options;
  options.versus = "int4";
  const Summary summary = Must(BuildSummary(candidates, options));
  EXPECT_NE(summary.json, before);
  ASSERT_TRUE(WriteSummaryFiles(out_, summary, candidates, signer_->public_key().pem()).ok());
  const Verification v = VerifyDirectory(out_, key_);
  EXPECT_EQ(v.verdict, Verdict::kValid) << v.ToText();
}

TEST_F(VerifyFolder, ChangedTablesAreNoticed) {
  for (const std::string file : {"summary.csv", "summary.md", "VERIFY.md"}) {
    WriteTestRun(out_, *signer_);
    std::string text = Must(ReadFile(out_ + "/" + file, 1 << 20));
    text[text.size() / 2] ^= 1;
    ASSERT_TRUE(WriteFile(out_ + "/" + file, text).ok());
    const Verification v = VerifyDirectory(out_, key_);
    EXPECT_EQ(v.verdict, Verdict::kFailed) << file;
    EXPECT_THAT(Failures(v), HasSubstr(file + " [SUMMARY_MISMATCH]"));
    ASSERT_TRUE(RemoveTree(out_ + "/" + file).ok());
    EXPECT_EQ(VerifyDirectory(out_, key_).verdict, Verdict::kValid) << file;
  }
}

TEST_F(VerifyFolder, ASummaryWhoseCandidatesAreGoneFails) {
  ASSERT_TRUE(RemoveTree(out_ + "/int4").ok());
  ASSERT_TRUE(RemoveTree(out_ + "/int8").ok());
  const Verification v = VerifyDirectory(out_, key_);
  EXPECT_EQ(v.verdict, Verdict::kFailed);
  EXPECT_THAT(Failures(v), HasSubstr("summary [FILE_MISSING]"));
}

TEST_F(VerifyFolder, WhatNobodyVouchesForIsListed) {
  EXPECT_THAT(VerifyDirectory(out_, key_).ToText(), ::testing::Not(HasSubstr("not-covered")));
  for (const char* file : {"notes.txt", "int4/extra.bin", "int4/positions/own/extra.f64",
                           "int4/positions/other/kl.f64", "folder/x"}) {
    ASSERT_TRUE(EnsureDirectory(DirName(out_ + "/" + file)).ok());
    ASSERT_TRUE(WriteFile(out_ + "/" + file, "x").ok());
  }
  const Verification v = VerifyDirectory(out_, key_);
  EXPECT_EQ(v.verdict, Verdict::kValid) << v.ToText();
  EXPECT_THAT(v.ToText(), HasSubstr("int4: not-covered: not part of a result, nothing here vouches "
                                    "for: extra.bin, positions/own/extra.f64, positions/other/\n"));
  EXPECT_THAT(v.ToText(), HasSubstr("nothing here vouches for: folder/, notes.txt\n"));
  ASSERT_TRUE(RemoveTree(out_ + "/summary.json").ok());
  EXPECT_THAT(VerifyDirectory(out_, key_).ToText(),
              HasSubstr("VERIFY.md, folder/, notes.txt, summary.csv, summary.md\n"));
}

// Whatever a page says, the result is what the other files say.
TEST_F(VerifyFolder, PagesAreSaidToBeUnsealedAndDoNotFail) {
  EXPECT_THAT(VerifyDirectory(out_, key_).ToText(), ::testing::Not(HasSubstr(": page: ")));
  ASSERT_TRUE(WriteFile(out_ + "/index.html", "anything").ok());
  ASSERT_TRUE(WriteFile(out_ + "/int4/report.html", "anything").ok());
  const Verification v = VerifyDirectory(out_, key_);
  EXPECT_EQ(v.verdict, Verdict::kValid) << v.ToText();
  EXPECT_THAT(v.ToText(), HasSubstr("int4: page: " + out_ + "/int4/report.html is not sealed"));
  EXPECT_THAT(v.ToText(), HasSubstr(out_ + ": page: " + out_ + "/index.html is not sealed"));
  EXPECT_THAT(v.ToText(), ::testing::Not(HasSubstr("not-covered")));
}

TEST_F(VerifyFolder, ABriefAnswerHasFailuresAndVerdict) {
  EXPECT_EQ(VerifyDirectory(out_, key_).ToBriefText(), "VALID: signed by a trusted key\n");
  ASSERT_TRUE(RemoveTree(out_ + "/int4/receipt.json").ok());
  const std::string text = VerifyDirectory(out_, key_).ToBriefText();
  EXPECT_THAT(text, ::testing::StartsWith("FAIL  int4: receipt: "));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("pass  ")));
  EXPECT_THAT(text, HasSubstr("FAILED: do not rely on this result\n"));
}

TEST_F(VerifyFolder, NothingThereIsAnAnswer) {
  EXPECT_THAT(Failures(VerifyDirectory(out_ + "/absent", "")), HasSubstr("FILE_MISSING"));
  const std::string empty = ::testing::TempDir() + "/empty_folder";
  ASSERT_TRUE(EnsureDirectory(empty).ok());
  EXPECT_THAT(Failures(VerifyDirectory(empty, "")), HasSubstr("NOTHING_TO_VERIFY"));
  EXPECT_EQ(VerifyDirectory(out_, empty + "/no.pub").verdict, Verdict::kFailed);
}

// The commands of VERIFY.md, run as they stand.
TEST_F(VerifyFolder, HandCommandsWork) {
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl program";
  const std::string text = Must(ReadFile(out_ + "/VERIFY.md", 1 << 20));
  std::string script = "set -e\n";
  for (size_t at = 0;;) {
    const size_t begin = text.find("```sh\n", at);
    if (begin == std::string::npos) break;
    const size_t end = text.find("```\n", begin + 6);
    script += text.substr(begin + 6, end - begin - 6);
    at = end + 4;
  }
  const auto run = [&]() -> std::string {
    (void)RemoveTree(out_ + "/int8/.verify");
    (void)RemoveTree(out_ + "/int4/.verify");
    EXPECT_TRUE(WriteFile(out_ + "/hand.sh", script).ok());
    const std::string command = "cd " + out_ + " && bash hand.sh > hand.log 2>&1";
    const int code = std::system(command.c_str());
    return std::to_string(code) + "\n" + Must(ReadFile(out_ + "/hand.log", 1 << 20));
  };
  const auto count = [](const std::string& all, const std::string& what) {
    size_t n = 0;
    for (size_t at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++n;
    return n;
  };
  const std::string good = run();
  EXPECT_EQ(good.substr(0, 2), "0\n") << good;
  EXPECT_EQ(count(good, "Signature Verified Successfully"), 4u) << good;  // 2 candidates x 2
  EXPECT_EQ(count(good, " OK\n"), 2u * (2 + 14)) << good;
  for (const std::string& id : VerifyDirectory(out_, "").receipt_ids) {
    EXPECT_THAT(good, HasSubstr(id));
  }
  std::string report = Must(ReadFile(out_ + "/int4/report.json", 1 << 28));
  report[report.size() / 2] = static_cast<char>(report[report.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFile(out_ + "/int4/report.json", report).ok());
  EXPECT_LT(count(run(), " OK\n"), 2u * (2 + 14));
}

}  // namespace
}  // namespace assay
