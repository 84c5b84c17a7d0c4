#include "storage/base/utf8.h"

#include "gtest/gtest.h"

namespace assay {
namespace {

TEST(Utf8Test, KnowsWellFormedText) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  // Lone continuation, cut character, overlong, surrogate, beyond U+10FFFF, never a byte.
  for (const char* bad : {"\x80", "a\xc3", "\xc0\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf0\x8f\xbf\xbf", "\xff", "\xe2\x82x"})
    EXPECT_FALSE(IsUtf8(bad)) << bad;
}

TEST(Utf8Test, ScrubsOnlyWhatIsWrong) {
  EXPECT_EQ(ScrubUtf8("tensor \xff\xc3\xa9 \xc3 end"), "tensor ?\xc3\xa9 ? end");
  EXPECT_EQ(ScrubUtf8("plain"), "plain");
}

TEST(Utf8Test, CutsBetweenCharacters) {
  const std::string text = "ab\xe2\x82\xac";
  EXPECT_EQ(CutUtf8(text, 5), text);
  EXPECT_EQ(CutUtf8(text, 4), "ab");
  EXPECT_EQ(CutUtf8(text, 3), "ab");
  EXPECT_EQ(CutUtf8(text, 2), "ab");
  EXPECT_EQ(CutUtf8(text, 1), "a");
}

}  // namespace
}  // namespace assay
