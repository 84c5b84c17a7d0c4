#include "storage/base/out_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class OutFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/assay-out-folder.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }
  std::string Path(const char* name) const { return JoinPath(dir_, name); }
  std::string dir_;
};

TEST_F(OutFolderTest, AFolderThatIsThereOrCanBeMadeIsFineAndNothingIsCreated) {
  EXPECT_TRUE(CheckCanWriteFolder(dir_).ok());
  EXPECT_TRUE(CheckCanWriteFolder(Path("a/b/c")).ok());
  EXPECT_FALSE(FileExists(Path("a")));
}

TEST_F(OutFolderTest, AFileInTheWayIsNamed) {
  ASSERT_TRUE(WriteFile(Path("file"), "x").ok());
  EXPECT_EQ(ReasonOf(CheckCanWriteFolder(Path("file"))), "OUT_INVALID");
  const absl::Status below = CheckCanWriteFolder(Path("file/a/b"));
  EXPECT_EQ(ReasonOf(below), "OUT_INVALID");
  EXPECT_THAT(MessageOf(below), HasSubstr(Path("file") + " is a file"));
  EXPECT_EQ(ReasonOf(CheckCanWriteFolder("")), "OUT_INVALID");
}

TEST_F(OutFolderTest, AFolderWithoutPermissionIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ASSERT_EQ(mkdir(Path("closed").c_str(), 0555), 0);
  const absl::Status status = CheckCanWriteFolder(Path("closed/a/b"));
  EXPECT_EQ(ReasonOf(status), "FILE_DENIED");
  EXPECT_THAT(MessageOf(status), HasSubstr(Path("closed") + " cannot be written to by this user"));
}

TEST_F(OutFolderTest, FoldersThatStayEmptyGoAgainAndOthersStay) {
  {
    MadeFolders made;
    ASSERT_TRUE(made.Make(Path("a/b")).ok());
    ASSERT_TRUE(made.Make(Path("a/b/c")).ok());
    EXPECT_TRUE(IsDirectory(Path("a/b/c")));
  }
  EXPECT_FALSE(FileExists(Path("a")));
  {
    MadeFolders made;
    ASSERT_TRUE(made.Make(Path("a/b")).ok());
    ASSERT_TRUE(WriteFile(Path("a/result"), "x").ok());
  }
  EXPECT_TRUE(FileExists(Path("a/result")));
  EXPECT_FALSE(FileExists(Path("a/b")));
  {
    MadeFolders made;
    ASSERT_TRUE(made.Make(Path("a")).ok());
  }
  EXPECT_TRUE(IsDirectory(Path("a"))) << "it was there before";
}

}  // namespace
}  // namespace assay
