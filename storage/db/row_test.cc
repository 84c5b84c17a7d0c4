#include "storage/db/row.h"

#include <gtest/gtest.h>

#include "storage/base/status.h"

namespace assay {
namespace {

TEST(Crc32c, KnownAnswer) {
  EXPECT_EQ(Crc32c("123456789"),
            0xe3069283u);  // RFC 3720's polynomial, the catalogue value of CRC-32C
  EXPECT_EQ(Crc32c(""), 0u);
}

RunRow FullRun() {
  RunRow run;
  run.id = "abc";
  run.contexts = {3, 1, INT64_MAX};
  run.softcap = 30.5;
  run.fresh = true;
  run.state = RunState::kSealing;
  run.heads = {"own", ""};
  run.reference.model = "m";
  CandidateRow candidate;
  candidate.label = "c";
  candidate.state = CandidateState::kFailed;
  candidate.error = {"INTERNAL", "X", "y"};
  candidate.source.head = "h";
  run.candidates = {candidate, CandidateRow{}};
  run.revision = UINT64_MAX;
  return run;
}

// Protobuf does not read back text that is no UTF-8: such a row would damage the whole store.
TEST(Row, TextThatIsNoUtf8CanBeReadBack) {
  RunRow run = FullRun();
  run.error = {"INTERNAL", "X", "tensor \xff\xc3\xa9 is cut \xe2\x82"};
  run.heads = {"own\xff"};
  const auto back = DecodeRow(EncodeRow(run), "run");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<RunRow>(*back).error.message, "tensor ?\xc3\xa9 is cut ??");
  EXPECT_EQ(std::get<RunRow>(*back).heads.at(0), "own?");
  // Bytes are bytes.
  const Row node = DecodeRow(EncodeRow(LogNodeRow{1, 2, "\xff\xfe"}), "node").value();
  EXPECT_EQ(std::get<LogNodeRow>(node).hash, "\xff\xfe");
}

TEST(Row, RoundTripsNestedFields) {
  const RunRow run = FullRun();
  const Row back = DecodeRow(EncodeRow(run), "run").value();
  const RunRow& got = std::get<RunRow>(back);
  EXPECT_EQ(got.contexts, run.contexts);
  EXPECT_EQ(got.softcap, 30.5);
  EXPECT_TRUE(got.fresh);
  EXPECT_EQ(got.state, RunState::kSealing);
  EXPECT_EQ(got.heads, run.heads);
  ASSERT_EQ(got.candidates.size(), 2u);
  EXPECT_EQ(got.candidates[0].error.reason, "X");
  EXPECT_EQ(got.candidates[0].source.head, "h");
  EXPECT_EQ(got.candidates[0].state, CandidateState::kFailed);
  EXPECT_EQ(got.revision, UINT64_MAX);
  EXPECT_EQ(EncodeRow(back), EncodeRow(run));
}

template <size_t I = 0>
void ExpectEveryKind() {
  if constexpr (I < std::variant_size_v<Row>) {
    const Row row(std::in_place_index<I>);
    const auto back = DecodeRow(EncodeRow(row), "row");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->index(), I);
    ExpectEveryKind<I + 1>();
  }
}
TEST(Row, EveryKindIsKnown) { ExpectEveryKind(); }

TEST(Row, AnyFlippedByteIsFound) {
  const std::string bytes = EncodeRow(FullRun());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 6 || i == 7) continue;  // reserved
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    const auto row = DecodeRow(bad, "the row");
    // The kind is outside the checksum; the key check of the catalogue covers it.
    if (i == 5 && row.ok()) continue;
    ASSERT_FALSE(row.ok()) << i;
    EXPECT_NE(MessageOf(row.status()).find("the row"), std::string::npos);
  }
  EXPECT_EQ(ReasonOf(DecodeRow("", "x").status()), "STORE_DAMAGED");
}

TEST(Row, ANewerFormatIsRefusedByName) {
  std::string bytes = EncodeRow(SuiteRow{});
  bytes[4] = 2;
  EXPECT_EQ(ReasonOf(DecodeRow(bytes, "x").status()), "STORE_VERSION");
}

TEST(Row, KeysKeepNumericOrder) {
  UnitRow a, b;
  a.id = 255;
  b.id = 256;
  EXPECT_LT(KeyOf(a).key, KeyOf(b).key);
  EXPECT_LT(EventKey("r", 9), EventKey("r", 10));
  EXPECT_NE(EventKey("r", 1).substr(0, 3), EventKey("r1", 1).substr(0, 3));
}

}  // namespace
}  // namespace assay
