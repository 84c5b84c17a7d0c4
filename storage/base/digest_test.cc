#include "storage/base/digest.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(DigestTest, MatchesFips180Examples) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DigestTest, StreamingEqualsOneShot) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.FinishHex(), Sha256Hex("abc"));
}

TEST(DigestTest, HexReadsBackAndRefusesDamage) {
  EXPECT_EQ(*BytesOfHex("00ffAb"), std::string("\x00\xff\xab", 3));
  EXPECT_FALSE(BytesOfHex("abc").ok());
  EXPECT_FALSE(BytesOfHex("zz").ok());
  EXPECT_FALSE(IsSha256Hex(std::string(64, 'A')));
  EXPECT_TRUE(IsSha256Hex(std::string(64, 'a')));
}

}  // namespace
}  // namespace assay
