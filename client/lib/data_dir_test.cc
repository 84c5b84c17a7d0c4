#include "client/lib/data_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DataDirTest : public ::testing::Test {
 protected:
  DataDirTest() {
    std::string pattern = ::testing::TempDir() + "dataXXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~DataDirTest() override { RemoveTree(dir_).IgnoreError(); }
  std::string dir_;
};

TEST_F(DataDirTest, OneProcessAtATimeAndTheOtherIsNamed) {
  const std::string data = JoinPath(dir_, "data");
  auto first = DataDirLock::Acquire(data, "assay score");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DataDirLock::Acquire(data, "assay suite list");
  EXPECT_EQ(ReasonOf(second.status()), "DATA_DIR_IN_USE");
  EXPECT_THAT(MessageOf(second.status()), HasSubstr(std::to_string(getpid())));
  EXPECT_THAT(MessageOf(second.status()), HasSubstr("assay score"));
  EXPECT_THAT(MessageOf(second.status()), HasSubstr("--data"));
  first->reset();
  EXPECT_TRUE(DataDirLock::Acquire(data, "assay score").ok());
}

TEST_F(DataDirTest, IsPrivate) {
  const std::string data = JoinPath(dir_, "data");
  ASSERT_TRUE(DataDirLock::Acquire(data, "x").ok());
  struct stat info;
  ASSERT_EQ(stat(data.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(DataDirTest, FlagThenEnvironment) {
  setenv("ASSAY_DATA", "/from/env", 1);
  EXPECT_EQ(*ResolveDataDir("/from/flag"), "/from/flag");
  EXPECT_EQ(*ResolveDataDir(""), "/from/env");
  unsetenv("ASSAY_DATA");
  setenv("XDG_DATA_HOME", "/xdg", 1);
  EXPECT_EQ(*ResolveDataDir(""), "/xdg/assay");
  unsetenv("XDG_DATA_HOME");
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(*ResolveDataDir(""), "/home/x/.local/share/assay");
  EXPECT_THAT(*ResolveDataDir("relative"), StartsWith("/"));
}

TEST_F(DataDirTest, ALongPathGetsAShortPrivateSocketFolder) {
  std::string deep = dir_;
  while (deep.size() < 150) deep = JoinPath(deep, "a-rather-long-name");
  ASSERT_TRUE(EnsureDirectory(deep).ok());
  setenv("XDG_RUNTIME_DIR", dir_.c_str(), 1);
  std::string folder;
  {
    const auto place = SocketPlace::Make(deep);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_LT((*place)->path().size(), 108u);
    folder = DirName((*place)->path());
    EXPECT_EQ(DirName(folder), dir_);
    struct stat info;
    ASSERT_EQ(stat(folder.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(IsDirectory(folder));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(DataDirTest, AShortPathKeepsTheSocketInTheDataDirectory) {
  const auto place = SocketPlace::Make("/tmp");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ((*place)->path(), "/tmp/assayd.sock");
}

}  // namespace
}  // namespace assay
