#include "client/lib/results.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class OutFolderTest : public ::testing::Test {
 protected:
  OutFolderTest() {
    std::string pattern = ::testing::TempDir() + "outXXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~OutFolderTest() override { RemoveTree(dir_).IgnoreError(); }
  std::string dir_;
};

TEST_F(OutFolderTest, NewEmptyOrHoldingTheSameResult) {
  EXPECT_TRUE(CheckOutFolder(JoinPath(dir_, "new"), {"a"}).ok());
  EXPECT_TRUE(CheckOutFolder(dir_, {"a"}).ok());
  ASSERT_TRUE(EnsureDirectory(JoinPath(dir_, "a")).ok());
  ASSERT_TRUE(WriteFile(JoinPath(dir_, "summary.json"), "{}").ok());
  EXPECT_TRUE(CheckOutFolder(dir_, {"a"}).ok());
  // What a command left that was killed while it wrote.
  ASSERT_TRUE(WriteFile(JoinPath(dir_, "VERIFY.md.tmp.17.3"), "").ok());
  EXPECT_TRUE(CheckOutFolder(dir_, {"a"}).ok());
  ASSERT_TRUE(WriteFile(JoinPath(dir_, "other.md.tmp.17.3"), "").ok());
  EXPECT_FALSE(CheckOutFolder(dir_, {"a"}).ok());
}

TEST_F(OutFolderTest, ForeignEntriesAreNamed) {
  ASSERT_TRUE(EnsureDirectory(JoinPath(dir_, "other")).ok());
  const absl::Status status = CheckOutFolder(dir_, {"a"});
  EXPECT_EQ(ReasonOf(status), "OUT_NOT_EMPTY");
  EXPECT_THAT(MessageOf(status), HasSubstr("other"));
}

TEST_F(OutFolderTest, AFileIsNoFolder) {
  ASSERT_TRUE(WriteFile(JoinPath(dir_, "file"), "x").ok());
  EXPECT_EQ(ReasonOf(CheckOutFolder(JoinPath(dir_, "file"), {})), "OUT_INVALID");
}

}  // namespace
}  // namespace assay
