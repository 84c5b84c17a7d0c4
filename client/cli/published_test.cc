// report aggregate, recompute, show, pair and export over published documents; receipt verify.

#include <stdlib.h>

#include "client/cli/cli_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class Published : public ::testing::Test {
 protected:
  void SetUp() override {
    qf_ = std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/metric/qf";
    std::string path = ::testing::TempDir() + "assay-published-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }

  std::string Report(const std::string& name) const { return qf_ + "/reports/" + name + ".json"; }
  CliOutcome Assay(std::vector<std::string> words) const {
    std::vector<const char*> args;
    for (const std::string& word : words) args.push_back(word.c_str());
    return Invoke(args);
  }
  std::string qf_, dir_;
};

TEST_F(Published, AggregateLikeAPublishedReceipt) {
  const std::string out = dir_ + "/again.json";
  const CliOutcome done =
      Assay({"report", "aggregate", Report("shard-0001-a"), Report("shard-0000-a"), "--suite",
             qf_ + "/suite", "--like", Report("cumulative-a"), "--out", out});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("14 contexts"));
  EXPECT_THAT(done.out, HasSubstr("contamination_scan"));
  Json got = *ReadJsonFile(out), want = *ReadJsonFile(Report("cumulative-a"));
  // The reports have other names here.
  for (Json* receipt : {&got, &want}) {
    for (const char* key : {"inputs", "content_sha256"}) receipt->erase(key);
    for (Json& shard : (*receipt)["shards"]) shard.erase("report");
  }
  EXPECT_EQ(got, want);
}

TEST_F(Published, AggregateSaysAllThatIsWrong) {
  const CliOutcome done =
      Assay({"report", "aggregate", Report("shard-0000-a"), Report("shard-0001-b"),
             Report("shard-0000-a"), "--suite", qf_ + "/suite", "--shard-size", "7"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("CANDIDATE_DIFFERS"));
  EXPECT_THAT(done.err, HasSubstr("too"));
  EXPECT_EQ(Assay({"report", "aggregate", Report("a"), "--shards", "0-"}).code, 2);
}

TEST_F(Published, RecomputeFromInputs) {
  const std::string out = dir_ + "/again.json";
  const CliOutcome done = Assay({"receipt", "recompute", Report("cumulative-a"), "--inputs",
                                 qf_ + "/reports", "--suite", qf_ + "/suite", "--out", out});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("pass recomputed"));
  EXPECT_EQ(*ReadFile(out, 1 << 24), *ReadFile(Report("cumulative-a"), 1 << 24));
  const CliOutcome alone = Assay({"report", "recompute", Report("paired-a-b"), "--json"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("not_checked"));
}

TEST_F(Published, ShowVerifyAndPair) {
  EXPECT_THAT(Assay({"report", "show", Report("a")}).out, HasSubstr("Mean KLD"));
  EXPECT_THAT(Assay({"receipt", "show", Report("cumulative-a")}).out, HasSubstr("aggregate"));
  EXPECT_EQ(Assay({"receipt", "verify", Report("cumulative-a")}).code, 0);
  const std::string out = dir_ + "/paired.json";
  EXPECT_EQ(Assay({"report", "pair", Report("a"), Report("b"), "--out", out}).code, 0);
  EXPECT_EQ((*ReadJsonFile(out)).at("difference_a_minus_b"),
            (*ReadJsonFile(Report("paired-a-b"))).at("difference_a_minus_b"));
  const CliOutcome three = Assay({"report", "pair", Report("a"), Report("b"), Report("a-from16")});
  EXPECT_EQ(three.code, 0) << three.err;
  EXPECT_THAT(three.out, HasSubstr("3 pairs were compared"));
  EXPECT_THAT(three.out, HasSubstr("WINDOW_DIFFERS"));
  EXPECT_EQ(Assay({"report", "pair", Report("cumulative-a"), Report("cumulative-b")}).code, 0);
  EXPECT_EQ(Assay({"report", "pair", Report("a"), Report("cumulative-b")}).code, 3);
}

// Whoever asks for a key must not take "every figure follows" for a signature.
TEST_F(Published, NoVerdictOnUnsignedDocumentsWhenAKeyIsAskedFor) {
  for (const char* noun : {"receipt", "report"}) {
    const CliOutcome done = Assay({noun, "verify", Report("a"), "--key", qf_ + "/none.pub"});
    EXPECT_EQ(done.code, 3) << done.out;
    EXPECT_THAT(done.err, HasSubstr("RECEIPT_EXPECTED"));
  }
}

TEST_F(Published, NoBlockWithoutPositionsAndNoVerdictOnNothing) {
  const CliOutcome block = Assay({"report", "show", Report("a"), "--style", "llama.cpp"});
  EXPECT_EQ(block.code, 3);
  EXPECT_THAT(block.err, HasSubstr("no values of single positions"));
  EXPECT_THAT(Assay({"report", "show", Report("a"), "--style", "json"}).out, HasSubstr("{"));
  for (const char* kind : {"capture-determinism", "head-equality", "replay-qualification"}) {
    const std::string file = dir_ + "/" + kind + ".json";
    ASSERT_TRUE(WriteFile(file, "{\"schema\": \"qwen38-" + std::string(kind) + "/1\"}").ok());
    const CliOutcome done = Assay({"report", "verify", file});
    EXPECT_EQ(done.code, 5) << done.out;
  }
  const std::string cut = dir_ + "/cut.json";
  ASSERT_TRUE(WriteFile(cut,
                        "{\"schema\": \"qwen38-replay-qualification/1\", "
                        "\"mean_kld_live_vs_replayed\": 0.5}")
                  .ok());
  EXPECT_THAT(Assay({"report", "verify", cut}).out, HasSubstr("NOT CHECKED"));
}

TEST_F(Published, ExportOfAPublishedReport) {
  const std::string out = dir_ + "/a.json";
  EXPECT_EQ(
      Assay({"report", "export", Report("a"), "--schema", "qwen38-fidelity-report/2", "--out", out})
          .code,
      0);
  EXPECT_EQ(*ReadFile(out, 1 << 24), *ReadFile(Report("a"), 1 << 24));
  EXPECT_EQ(Assay({"report", "export", Report("a"), "--schema", "qwen38-fidelity-report/3"}).code,
            3);
  const CliOutcome own = Assay({"report", "export", Report("a-from16")});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, *ReadFile(Report("a-from16"), 1 << 24));
  const CliOutcome none = Assay({"report", "export", qf_});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--schema"));
}

TEST_F(Published, JointOverRows) {
  const CliOutcome done =
      Assay({"report", "joint", Report("a"), "--against", Report("b"), "--json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("sign_test"));
}

}  // namespace
}  // namespace assay
