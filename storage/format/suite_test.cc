#include "storage/format/suite.h"

#include <gtest/gtest.h>

#include <functional>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/format/format_test_util.h"
#include "storage/format/token_list.h"

namespace assay {
namespace {

class SuiteTest : public TempDirTest {
 protected:
  void SetUp() override {
    TempDirTest::SetUp();
    CopyTree(DataPath("smollm2/suite"), "s");
    suite_dir_ = JoinPath(dir_, "s");
    manifest_ = *ReadJsonFile(JoinPath(suite_dir_, "suite-manifest.json"));
  }

  std::string ReasonOfRead() {
    const auto suite = ReadSuite(suite_dir_);
    if (suite.ok()) return "OK";
    message_ = MessageOf(suite.status());
    return ReasonOf(suite.status());
  }
  // Writes the manifest as it stands; `reseal` recomputes the suite digest from the rows.
  void PutManifest(bool reseal) {
    if (reseal) {
      std::string all;
      for (const Json& row : manifest_["context_index"]) all += row["token_sha256"];
      manifest_["suite_token_sha256"] = Sha256Hex(all);
    }
    Put("s/suite-manifest.json", PythonPrettyJson(manifest_));
  }
  // Puts `text` as the tokens of context 0, with a digest that fits.
  void PutTokens(const std::string& text, const std::string& digested) {
    Put("s/tokens/context-0000.json", text);
    manifest_["context_index"][0]["token_sha256"] = Sha256Hex(digested);
    PutManifest(true);
  }

  std::string suite_dir_;
  Json manifest_;
  std::string message_;
};

TEST_F(SuiteTest, ReadsThePanel) {
  const auto suite = ReadSuite(suite_dir_);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->schema, "qwen38-distribution-fidelity/6");
  EXPECT_EQ(suite->context_length, 64);
  EXPECT_EQ(suite->vocab_size, 49152);
  EXPECT_EQ(suite->hidden_size, 576);
  ASSERT_EQ(suite->contexts.size(), 8u);
  EXPECT_EQ(suite->suite_token_sha256,
            "5b364db40960a93da2c5e13cc596450201a1dbef620f3910bf771e3ec212dd6e");
  EXPECT_EQ(suite->contexts[0].source_cluster, "sensor-json");
  EXPECT_EQ(suite->contexts[0].stratum, "structured");
  for (const SuiteContext& context : suite->contexts) {
    EXPECT_EQ(context.tokens.size(), 64u);
    EXPECT_EQ(TokenFileBytes(context.tokens), ReadOrDie(JoinPath(suite_dir_, context.file)));
  }
  EXPECT_EQ(suite->manifest_sha256, *Sha256File(JoinPath(suite_dir_, "suite-manifest.json")));
}

TEST(DevelopmentPanel, IsASoundSuite) {
  const auto suite = ReadSuite(SourcePath("deploy/panel/suite"));
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->vocab_size, 49152);
  EXPECT_EQ(suite->context_length, 128);
  EXPECT_GE(suite->contexts.size(), 48u);
}

// A name must not steer the terminal that shows it, nor turn the direction of what follows.
TEST_F(SuiteTest, NamesHoldNoControls) {
  const Json original = manifest_;
  for (const char* key : {"stratum", "source_cluster", "partition"}) {
    for (const char* text :
         {"a\x1b[31mb", "a\nb", "\x7f", "a\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6x"}) {
      manifest_ = original;
      manifest_.erase("strata");
      manifest_.erase("partitions");
      manifest_["context_index"][0][key] = text;
      PutManifest(true);
      EXPECT_EQ(ReasonOfRead(), "SUITE_INVALID") << key << ": " << text;
    }
  }
  manifest_ = original;
  manifest_.erase("strata");
  manifest_["context_index"][0]["stratum"] = "d\xc3\xa9j\xc3\xa0 \xe2\x80\x93 \xe6\x97\xa5";
  PutManifest(true);
  EXPECT_EQ(ReasonOfRead(), "OK") << message_;
}

TEST_F(SuiteTest, FiltersSelectRows) {
  const auto suite = ReadSuite(suite_dir_);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(SelectContexts(*suite, "")->size(), 8u);
  EXPECT_EQ(SelectContexts(*suite, "all")->size(), 8u);
  EXPECT_EQ(*SelectContexts(*suite, "sentinel"), (std::vector<size_t>{1, 7}));
  EXPECT_EQ(SelectContexts(*suite, "analysis")->size(), 6u);
  EXPECT_EQ(SelectContexts(*suite, "qualification")->size(), 2u);
  const absl::Status none = SelectContexts(*suite, "nothing").status();
  EXPECT_EQ(ReasonOf(none), "FILTER_EMPTY");
  EXPECT_NE(MessageOf(none).find("partitions: analysis, qualification"), std::string::npos) << none;
}

// /1 suites: no partition, no sentinel, no vocabulary; a missing partition counts as analysis.
TEST_F(SuiteTest, FirstSchemaIsReadByTheKeysThatAreThere) {
  manifest_["schema"] = "qwen38-distribution-fidelity/1";
  for (const char* key : {"partitions", "vocab_size", "hidden_size", "documents"})
    manifest_.erase(key);
  for (Json& row : manifest_["context_index"]) {
    row.erase("partition");
    row.erase("sentinel");
  }
  PutManifest(false);
  const auto suite = ReadSuite(suite_dir_);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->vocab_size, 0);
  EXPECT_EQ(SelectContexts(*suite, "analysis")->size(), 8u);
  EXPECT_EQ(ReasonOf(SelectContexts(*suite, "qualification").status()), "FILTER_EMPTY");
  EXPECT_EQ(ReasonOf(CheckTokensBelow(*suite, 100)), "TOKEN_OUT_OF_RANGE");
  EXPECT_TRUE(CheckTokensBelow(*suite, 49152).ok());
}

// A shard view keeps its parent's numbers and, as published, comes without the tokens link.
TEST_F(SuiteTest, ShardViewUsesTheParentsTokens) {
  Json view = manifest_;
  Json rows = Json::array({manifest_["context_index"][4], manifest_["context_index"][6]});
  view["context_index"] = rows;
  view["contexts"] = 2;
  view["total_scored_positions"] = 126;
  view["source_clusters"] = 2;
  view["strata"] = Json::object();
  view["partitions"] = Json::object();
  for (const Json& row : rows) {
    for (const auto& [block, key] : {std::pair("strata", "stratum"), {"partitions", "partition"}}) {
      const std::string name = row[key];
      view[block][name] = view[block].value(name, 0) + 1;
    }
  }
  view["suite_token_sha256"] = Sha256Hex(rows[0]["token_sha256"].get<std::string>() +
                                         rows[1]["token_sha256"].get<std::string>());
  view["shard"] = Json::parse(R"({"index": 0, "context_indices": [4, 6]})");
  Put("s/shard-0000/suite-manifest.json", PythonPrettyJson(view));
  const auto shard = ReadSuite(JoinPath(suite_dir_, "shard-0000"));
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->contexts[1].index, 6);
  EXPECT_EQ(shard->contexts[1].tokens.size(), 64u);

  view["shard"]["context_indices"] = {4, 5};
  Put("s/shard-0000/suite-manifest.json", PythonPrettyJson(view));
  EXPECT_EQ(ReasonOf(ReadSuite(JoinPath(suite_dir_, "shard-0000")).status()), "SUITE_INVALID");
}

TEST_F(SuiteTest, EveryFlippedDigitOfATokenFileIsNamed) {
  const std::string path = "s/tokens/context-0003.json";
  const std::string good = ReadOrDie(JoinPath(dir_, path));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    Put(path, bad);
    EXPECT_NE(ReasonOfRead(), "OK") << i;
    EXPECT_NE(message_.find("context-0003.json"), std::string::npos) << message_;
  }
}

TEST_F(SuiteTest, ChangedTokensAreADigestMismatch) {
  std::string text = ReadOrDie(JoinPath(dir_, "s/tokens/context-0003.json"));
  text[1] = text[1] == '1' ? '2' : '1';
  Put("s/tokens/context-0003.json", text);
  EXPECT_EQ(ReasonOfRead(), "DIGEST_MISMATCH");
  EXPECT_NE(message_.find("fetch"), std::string::npos);
}

TEST_F(SuiteTest, MissingFilesAreNamed) {
  ASSERT_TRUE(RemoveTree(JoinPath(suite_dir_, "tokens/context-0005.json")).ok());
  EXPECT_EQ(ReasonOfRead(), "FILE_MISSING");
  EXPECT_NE(message_.find("context-0005.json"), std::string::npos);
  ASSERT_TRUE(RemoveTree(JoinPath(suite_dir_, "suite-manifest.json")).ok());
  EXPECT_EQ(ReasonOfRead(), "FILE_MISSING");
}

TEST_F(SuiteTest, TokenOutsideTheVocabularyIsRefused) {
  std::string text = "[49152";
  for (int i = 1; i < 64; ++i) text += ", 5";
  PutTokens(text + "]", text + "]");
  EXPECT_EQ(ReasonOfRead(), "TOKEN_OUT_OF_RANGE");
  EXPECT_NE(message_.find("position 0"), std::string::npos) << message_;
  PutTokens("[-1, 5]", "[-1, 5]");
  EXPECT_EQ(ReasonOfRead(), "TOKEN_OUT_OF_RANGE");
  PutTokens("[99999999999, 5]", "[99999999999, 5]");
  EXPECT_EQ(ReasonOfRead(), "TOKEN_OUT_OF_RANGE");
}

TEST_F(SuiteTest, WrongTokenCountIsRefused) {
  PutTokens("[1, 2, 3]", "[1, 2, 3]");
  EXPECT_EQ(ReasonOfRead(), "SHAPE_MISMATCH");
}

TEST_F(SuiteTest, OtherBlanksAreTheSameTokens) {
  const std::string text = ReadOrDie(JoinPath(dir_, "s/tokens/context-0000.json"));
  std::string spaced = "\n ";
  for (char c : text) spaced += c == ' ' ? '\t' : c;
  PutTokens(spaced + "\n", text);
  EXPECT_EQ(ReasonOfRead(), "OK") << message_;
}

TEST_F(SuiteTest, HostileManifestsAreRefused) {
  const Json good = manifest_;
  struct Edit {
    const char* reason;
    std::function<void(Json&)> apply;
  };
  const Edit edits[] = {
      {"PATH_UNSAFE", [](Json& m) { m["context_index"][0]["file"] = "../../etc/passwd"; }},
      {"PATH_UNSAFE", [](Json& m) { m["context_index"][0]["file"] = "/etc/passwd"; }},
      {"SUITE_INVALID", [](Json& m) { m["context_index"][1]["index"] = 0; }},
      {"SUITE_INVALID",
       [](Json& m) { m["context_index"][1]["file"] = m["context_index"][0]["file"]; }},
      {"SUITE_INVALID", [](Json& m) { m["context_index"] = Json::array(); }},
      {"SUITE_INVALID", [](Json& m) { m["contexts"] = 9; }},
      {"SUITE_INVALID", [](Json& m) { m["source_clusters"] = 7; }},
      {"SUITE_INVALID", [](Json& m) { m["strata"]["code"] = 3; }},
      {"SUITE_INVALID", [](Json& m) { m["partitions"]["analysis"] = 7; }},
      {"SUITE_INVALID", [](Json& m) { m["total_scored_positions"] = 505; }},
      {"SUITE_INVALID", [](Json& m) { m["schema"] = "another/1"; }},
      {"FIELD_MISSING", [](Json& m) { m.erase("context_length"); }},
      {"FIELD_INVALID", [](Json& m) { m["context_length"] = 1; }},
      {"FIELD_INVALID", [](Json& m) { m["context_length"] = 1e300; }},
      {"FIELD_INVALID", [](Json& m) { m["context_index"][0]["index"] = -1; }},
      {"FIELD_INVALID", [](Json& m) { m["context_index"][0]["token_sha256"] = "abc"; }},
      {"FIELD_INVALID", [](Json& m) { m["context_index"][0] = 5; }},
      {"SHAPE_MISMATCH", [](Json& m) { m["context_index"][0]["tokens"] = 63; }},
      {"DIGEST_MISMATCH", [](Json& m) { m["suite_token_sha256"] = std::string(64, 'a'); }},
  };
  for (const Edit& edit : edits) {
    manifest_ = good;
    edit.apply(manifest_);
    PutManifest(false);
    EXPECT_EQ(ReasonOfRead(), edit.reason) << message_;
    EXPECT_NE(message_.find("suite-manifest.json"), std::string::npos) << message_;
  }
}

TEST(TokenList, RefusesWhatIsNoListOfIntegers) {
  for (const char* text : {"", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[01]", "[1.0]", "[1e2]",
                           "[true]", "[1] x", "{}", "[[1]]", "[-]", "1"}) {
    EXPECT_EQ(ReasonOf(ParseTokenList(text, "t").status()), "SUITE_INVALID") << text;
  }
  EXPECT_TRUE(ParseTokenList(" [ ] ", "t")->empty());
  EXPECT_EQ(*ParseTokenList("[0,\t2147483647]", "t"), (std::vector<int32_t>{0, 2147483647}));
}

Suite OfStrata(const std::vector<std::string>& strata) {
  Suite suite;
  for (const std::string& stratum : strata) {
    SuiteContext context;
    context.index = static_cast<int64_t>(suite.contexts.size());
    context.stratum = stratum;
    suite.contexts.push_back(context);
  }
  return suite;
}

TEST(LimitContexts, StrataTakeTurnsAndGiveEvenlySpacedContexts) {
  using Places = std::vector<size_t>;
  const Suite suite = OfStrata({"a", "a", "a", "a", "a", "a", "b", "b", "c"});
  const Places all = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  // One of each: the middle of "a" (6 contexts), the second of "b", the only one of "c".
  EXPECT_EQ(LimitContexts(suite, all, 3), (Places{3, 7, 8}));
  // Five: "a" gives two at floor(6/4) = 1 and floor(18/4) = 4, "b" both, "c" its only one.
  EXPECT_EQ(LimitContexts(suite, all, 5), (Places{1, 4, 6, 7, 8}));
  // Seven: "b" and "c" have no more, "a" gives floor((2i+1)6/8) = 0, 2, 3, 5.
  EXPECT_EQ(LimitContexts(suite, all, 7), (Places{0, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(LimitContexts(suite, all, 1), (Places{3}));
  EXPECT_EQ(LimitContexts(suite, all, 9), all);
  EXPECT_EQ(LimitContexts(suite, all, 0), all);
  // Of a filter's contexts only those.
  EXPECT_EQ(LimitContexts(suite, {2, 5, 7}, 2), (Places{5, 7}));
}

}  // namespace
}  // namespace assay
