#include "client/cli/tokenizer_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/digest.h"
#include "storage/base/files.h"

namespace assay {
namespace {

using testing::HasSubstr;

Json SuiteMadeWith(const Json& tokenizer) { return {{"build", {{"tokenizer", tokenizer}}}}; }

class TokenizerCheck : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tokenizerXXXXXX";
    dir_ = mkdtemp(pattern.data());
    ASSERT_TRUE(WriteFile(dir_ + "/tokenizer.json", "{\"version\": \"1.0\"}").ok());
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }
  std::string dir_;
};

TEST_F(TokenizerCheck, AFoldersTokenizerIsComparedByItsDigest) {
  const std::string own = Sha256File(dir_ + "/tokenizer.json").value();
  const auto difference = [&](const std::string& sha256) {
    return TokenizerDifference(
        SuiteMadeWith({{"kind", "tokenizer.json"}, {"file", "tokenizer.json"}, {"sha256", sha256}}),
        dir_, nullptr);
  };
  EXPECT_EQ(difference(own), "");
  EXPECT_THAT(difference(std::string(64, 'a')), HasSubstr("TOKENIZER_DIFFERS"));
  EXPECT_THAT(difference(std::string(64, 'a')), HasSubstr(own.substr(0, 12)));
}

TEST_F(TokenizerCheck, WhatCannotBeComparedIsNotSaid) {
  EXPECT_EQ(TokenizerDifference(Json::object(), dir_, nullptr), "");
  EXPECT_EQ(TokenizerDifference({{"build", 3}}, dir_, nullptr), "");
  EXPECT_EQ(TokenizerDifference(
                SuiteMadeWith({{"kind", "gguf"}, {"vocabulary_sha256", std::string(64, 'a')}}),
                dir_, nullptr),
            "");
  EXPECT_EQ(GgufVocabularySha256(dir_ + "/tokenizer.json"), "");
}

// vocabulary_sha256 as `assay-suite build --tokenizer` of the Python package records it.
TEST_F(TokenizerCheck, AGgufsVocabularyHasThePythonPackagesDigest) {
  const char* model = std::getenv("ASSAY_SMOLLM2_GGUF");
  if (model == nullptr) GTEST_SKIP() << "ASSAY_SMOLLM2_GGUF is not set";
  EXPECT_EQ(GgufVocabularySha256(model),
            "9f7387010f452afde0198d5082e7d3e0ee9f9ef708cbbe1777fe72975f2ad058");
  EXPECT_THAT(TokenizerDifference(SuiteMadeWith({{"kind", "gguf"},
                                                 {"file", "other.gguf"},
                                                 {"vocabulary_sha256", std::string(64, 'a')}}),
                                  model, nullptr),
              HasSubstr("other.gguf"));
}

}  // namespace
}  // namespace assay
