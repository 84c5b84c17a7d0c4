#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/format/format_test_util.h"
#include "storage/format/suite.h"
#include "storage/llamacpp/logits_file.h"
#include "storage/llamacpp/suite.h"

namespace assay {
namespace {

const char kBase[] = "llamacpp/v4097-c64/base-Q4_1.kld";

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const unsigned char c : bytes) {
    char text[3];
    snprintf(text, sizeof text, "%02x", c);
    out += text;
  }
  return out;
}

class LlamacppTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/llamacpp_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(RemoveTree(folder_).ok());
    ASSERT_TRUE(EnsureDirectory(folder_).ok());
  }
  void TearDown() override { RemoveTree(folder_).IgnoreError(); }

  std::string Write(const std::string& bytes) {
    const std::string path = JoinPath(folder_, "x.kld");
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  // The reason of opening the fixture after `change`.
  std::string ReasonAfter(const std::function<void(std::string*)>& change) {
    std::string bytes = ReadOrDie(DataPath(kBase));
    change(&bytes);
    const auto file = LlamacppLogits::Open(Write(bytes));
    return file.ok() ? "OK" : ReasonOf(file.status());
  }
  template <typename T>
  std::string ReasonWith(uint64_t offset, T value) {
    return ReasonAfter(
        [&](std::string* bytes) { std::memcpy(bytes->data() + offset, &value, sizeof value); });
  }

  std::string folder_;
};

// Bytes worked out by hand from the format's description (specs/peers 3.4).
TEST_F(LlamacppTest, EncodesTheWorkedExample) {
  EXPECT_EQ(Hex(EncodeLlamacppHeader(4, 5, std::vector<int32_t>{1, 2, 3, 4})),
            "5f6c6f676974735f04000000050000000100000001000000020000000300000004000000");
  EXPECT_EQ(Hex(EncodeLlamacppRow(std::vector<float>{1, 0, -20, 3.5, 3.5})),
            "800080396efb85c1ffd7ffc70000ffffffff0000");
  EXPECT_EQ(Hex(EncodeLlamacppRow(std::vector<float>{2, 2, 2, 2})).substr(0, 8), "00000000");
}

// The tool's own files, byte for byte from the logits behind them.
TEST_F(LlamacppTest, EncodesWhatTheToolWrote) {
  for (const std::string name : {"base-Q4_1", "cand-Q4_0"}) {
    const std::string path = DataPath("llamacpp/v4097-c64/" + name);
    const auto file = LlamacppLogits::Open(path + ".kld");
    ASSERT_TRUE(file.ok()) << file.status();
    const std::string raw = ReadOrDie(path + ".logits.f32");
    const auto vocab = static_cast<size_t>((*file)->vocab_size());
    std::vector<int32_t> tokens;
    for (int64_t c = 0; c < (*file)->chunks(); ++c) {
      const auto chunk = (*file)->Tokens(c);
      tokens.insert(tokens.end(), chunk.begin(), chunk.end());
    }
    std::string bytes =
        EncodeLlamacppHeader((*file)->context_length(), (*file)->vocab_size(), tokens);
    for (int64_t row = 0; row < (*file)->rows(); ++row) {
      std::vector<float> logits(vocab);
      std::memcpy(logits.data(), raw.data() + static_cast<size_t>(row) * vocab * 4, vocab * 4);
      bytes += EncodeLlamacppRow(logits);
    }
    EXPECT_EQ(Sha256Hex(bytes), Sha256Hex(ReadOrDie(path + ".kld"))) << name;
  }
}

TEST_F(LlamacppTest, ReadsPositionsAndTargets) {
  const auto file = LlamacppLogits::Open(DataPath(kBase));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->context_length(), 64);
  EXPECT_EQ((*file)->vocab_size(), 4097);
  EXPECT_EQ((*file)->chunks(), 4);
  EXPECT_EQ((*file)->rows_per_chunk(), 31);
  EXPECT_EQ((*file)->first_position(), 32);
  EXPECT_EQ((*file)->Target(0), 155);  // known-answer.json, per_row.target
  EXPECT_EQ((*file)->Target(1), 125);
  EXPECT_EQ((*file)->coding(), LlamacppCoding::kFloor16);
}

TEST_F(LlamacppTest, RefusesWhatTheToolAccepts) {
  const auto cut = [&](size_t size) {
    return ReasonAfter([&](std::string* b) { b->resize(size); });
  };
  const size_t tokens_end = 20 + 4 * 4 * 64, row = 2 * 4102;
  for (const size_t size : {size_t{0}, size_t{7}, size_t{12}, size_t{100}, tokens_end,
                            tokens_end + row, tokens_end + row + 9}) {
    EXPECT_EQ(cut(size), "LLAMACPP_INVALID") << size;
  }
  EXPECT_EQ(ReasonAfter([](std::string* b) {
              *b += "\0\0";
              *b += 'x';
            }),
            "LLAMACPP_INVALID");
  EXPECT_EQ(ReasonAfter([](std::string* b) { (*b)[3] = 'x'; }), "LLAMACPP_INVALID");
  for (const int32_t v : {4095, 4096, 4099, 0, -1, INT32_MAX})
    EXPECT_EQ(ReasonWith<int32_t>(12, v), "LLAMACPP_INVALID") << v;
  for (const int32_t n : {3, 5, 0, -1, INT32_MAX})
    EXPECT_EQ(ReasonWith<int32_t>(16, n), "LLAMACPP_INVALID") << n;
  for (const int32_t c : {63, 65, 2, 0, -1, INT32_MAX})
    EXPECT_EQ(ReasonWith<int32_t>(8, c), "LLAMACPP_INVALID") << c;
  EXPECT_EQ(ReasonWith<int32_t>(20 + 40, 4097), "TOKEN_OUT_OF_RANGE");
  EXPECT_EQ(ReasonWith<int32_t>(20 + 40, -1), "TOKEN_OUT_OF_RANGE");
  const size_t third = tokens_end + 2 * row;
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  for (const float scale : {nan, inf, -1e-4F, 1.0F, 0.0F})
    EXPECT_EQ(ReasonWith(third, scale), "LLAMACPP_INVALID") << scale;
  for (const float base : {nan, inf, -inf, 0.5F})
    EXPECT_EQ(ReasonWith(third + 4, base), "LLAMACPP_INVALID") << base;
  EXPECT_EQ(ReasonAfter([&](std::string* b) {
              for (size_t i = third + 8; i < third + row; ++i) (*b)[i] = '\x01';
            }),
            "LLAMACPP_INVALID");
}

TEST_F(LlamacppTest, NamesTheDamagedRow) {
  std::string bytes = ReadOrDie(DataPath(kBase));
  const float scale = -1;
  std::memcpy(bytes.data() + 20 + 4 * 4 * 64 + (31 + 2) * 2 * 4102, &scale, 4);
  const auto file = LlamacppLogits::Open(Write(bytes));
  ASSERT_FALSE(file.ok());
  EXPECT_NE(MessageOf(file.status()).find("chunk 1, position 34"), std::string::npos)
      << file.status();
}

TEST_F(LlamacppTest, TellsTheWriters) {
  const std::vector<int32_t> tokens = {1, 0, 1, 0};
  const std::vector<float> logits = {0, -30};
  const auto coding = [&](const std::string& bytes) {
    const auto file = LlamacppLogits::Open(Write(bytes));
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? (*file)->coding() : LlamacppCoding::kFloor16;
  };
  const std::string header = EncodeLlamacppHeader(4, 2, tokens);
  EXPECT_EQ(coding(header + EncodeLlamacppRow(logits)), LlamacppCoding::kFloor16);
  EXPECT_EQ(coding(header + EncodeLlamacppRow(logits, LlamacppCoding::kFloor24)),
            LlamacppCoding::kFloor24);
  EXPECT_EQ(coding("_logits2" + header.substr(8) + EncodeLlamacppRow(logits)), LlamacppCoding::kV2);
}

TEST_F(LlamacppTest, ItsSuiteIsASuite) {
  const auto file = LlamacppLogits::Open(DataPath("llamacpp/v4097-c16-bos/base-Q4_1-add-bos.kld"));
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string dir = JoinPath(folder_, "suite");
  ASSERT_TRUE(WriteLlamacppSuite(**file, {1, 2}, dir).ok());
  const auto suite = ReadSuite(dir);
  ASSERT_TRUE(suite.ok()) << suite.status();
  ASSERT_EQ(suite->contexts.size(), 3u);
  EXPECT_EQ(suite->context_length, 16);
  EXPECT_EQ(suite->vocab_size, 4097);
  EXPECT_EQ(suite->contexts[1].source_cluster, suite->contexts[0].source_cluster);
  EXPECT_NE(suite->contexts[2].source_cluster, suite->contexts[0].source_cluster);
  for (int64_t c = 0; c < 3; ++c) {
    const auto& tokens = suite->contexts[static_cast<size_t>(c)].tokens;
    EXPECT_EQ(tokens[0], 1);  // what the model was fed, whatever the file keeps
    const auto stored = (*file)->Tokens(c);
    EXPECT_EQ(std::vector(tokens.begin() + 1, tokens.end()),
              std::vector(stored.begin() + 1, stored.end()));
  }
  EXPECT_NE((*file)->Tokens(1)[0], 1);
  EXPECT_EQ(ReasonOf(WriteLlamacppSuite(**file, {1, 2}, dir)), "OUT_NOT_EMPTY");
  EXPECT_EQ(ReasonOf(WriteLlamacppSuite(**file, {4097, 2}, dir + "2")), "TOKEN_OUT_OF_RANGE");
}

}  // namespace
}  // namespace assay
