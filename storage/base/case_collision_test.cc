#include "storage/base/case_collision.h"

#include <gtest/gtest.h>

#include <vector>

namespace assay {
namespace {

TEST(CaseCollision, FilesAndFolders) {
  const auto find = [](std::vector<std::string> paths) { return CaseCollision(paths); };
  EXPECT_EQ(find({}), "");
  EXPECT_EQ(find({"a", "b", "a/b", "ab", "a", "x/a", "x/b"}), "");
  EXPECT_EQ(find({"README.md", "a", "readme.md"}), "README.md and readme.md");
  EXPECT_EQ(find({"a/x", "A/y"}), "a and A");
  EXPECT_EQ(find({"a/b/x", "a/B"}), "a/b and a/B");
  EXPECT_EQ(find({"a/x", "a/X"}), "a/x and a/X");
  EXPECT_EQ(find({"\xC3\x84", "\xC3\xA4"}), "");  // beyond ASCII it is the file system's matter
}

}  // namespace
}  // namespace assay
