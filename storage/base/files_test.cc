#include "storage/base/files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-files-XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }
  std::string dir_;
};

TEST_F(FilesTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  const std::string path = JoinPath(dir_, "a.json");
  ASSERT_TRUE(WriteFileAtomic(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "two").ok());
  EXPECT_EQ(*ReadFile(path, 100), "two");
  EXPECT_EQ(ListDirectory(dir_)->size(), 1u);
}

// The child is killed at the named point by a fresh process image: kill points are read from the
// environment once.
class KillPointTest : public FilesTest, public testing::WithParamInterface<const char*> {};

TEST_P(KillPointTest, OverwriteLeavesOldOrNewBytesNeverAMixture) {
  const std::string path = JoinPath(dir_, "a.json");
  ASSERT_TRUE(WriteFileAtomic(path, "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    setenv("ASSAY_KILLPOINT", GetParam(), 1);
    setenv("ASSAY_TEST_OVERWRITE", path.c_str(), 1);
    execl("/proc/self/exe", "base_test", "--gtest_filter=KillPointChild.Overwrites",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  ASSERT_GT(child, 0);
  int ended = 0;
  waitpid(child, &ended, 0);
  ASSERT_TRUE(WIFSIGNALED(ended)) << "the kill point " << GetParam() << " was never passed";
  const bool renamed = std::string(GetParam()) == "file:renamed";
  EXPECT_EQ(*ReadFile(path, 100), renamed ? "new" : "old");
}

INSTANTIATE_TEST_SUITE_P(Points, KillPointTest,
                         testing::Values("file:written", "file:synced", "file:renamed"));

TEST(KillPointChild, Overwrites) {
  const char* path = getenv("ASSAY_TEST_OVERWRITE");
  if (path == nullptr) GTEST_SKIP() << "runs only as the child of KillPointTest";
  ASSERT_TRUE(WriteFileAtomic(path, "new").ok());
}

TEST_F(FilesTest, ReadIsBounded) {
  const std::string path = JoinPath(dir_, "big");
  ASSERT_TRUE(WriteFile(path, std::string(1000, 'x')).ok());
  EXPECT_EQ(ReasonOf(ReadFile(path, 999).status()), "FILE_TOO_LARGE");
  EXPECT_TRUE(ReadFile(path, 1000).ok());
}

// A hole of terabytes costs nothing on disk; reading up to the limit first would take all memory.
TEST_F(FilesTest, AFileThatSaysItIsTooLargeIsNotRead) {
  const std::string path = JoinPath(dir_, "hole");
  ASSERT_TRUE(WriteFile(path, "").ok());
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 41), 0);
  const auto read_with_little_memory = [&] {
#ifndef ASSAY_SANITIZED  // sanitizers reserve more address space than that
    const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
    setrlimit(RLIMIT_AS, &limit);
#endif
    exit(ReasonOf(ReadFile(path, uint64_t{1} << 40).status()) == "FILE_TOO_LARGE" ? 0 : 1);
  };
  EXPECT_EXIT(read_with_little_memory(), testing::ExitedWithCode(0), "");
}

TEST_F(FilesTest, MissingFileIsNamed) {
  const auto missing = MappedFile::Open(JoinPath(dir_, "nothing-here"));
  EXPECT_EQ(ReasonOf(missing.status()), "FILE_MISSING");
  EXPECT_NE(MessageOf(missing.status()).find("nothing-here"), std::string::npos);
}

// Nobody ever writes to the pipe: reading it as a file would last for ever.
TEST_F(FilesTest, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = JoinPath(dir_, "pipe"), loop = JoinPath(dir_, "loop");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  for (const std::string& path : {pipe, dir_, std::string("/dev/zero")}) {
    EXPECT_EQ(ReasonOf(ReadFile(path, 100).status()), "FILE_NOT_REGULAR") << path;
    EXPECT_EQ(ReasonOf(MappedFile::Open(path).status()), "FILE_NOT_REGULAR") << path;
    EXPECT_EQ(ReasonOf(Sha256File(path).status()), "FILE_NOT_REGULAR") << path;
  }
  EXPECT_EQ(ReasonOf(ReadFile(loop, 100).status()), "FILE_MISSING");
  for (const std::string& path : {pipe, JoinPath(pipe, "below"), loop}) {
    EXPECT_EQ(ReasonOf(EnsureDirectory(path)), "FILE_NOT_FOLDER") << path;
  }
}

TEST(PathTest, OnlySafeRelativePathsPass) {
  EXPECT_TRUE(IsSafeRelativePath("tokens/context-0001.json"));
  for (const char* bad : {"", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/.", "a\\b"}) {
    EXPECT_FALSE(IsSafeRelativePath(bad)) << bad;
  }
  EXPECT_FALSE(IsSafeRelativePath(std::string_view("a\0b", 3)));
}

TEST(PathTest, Parts) {
  EXPECT_EQ(BaseName("a/b/c"), "c");
  EXPECT_EQ(BaseName("a/b/"), "b");
  EXPECT_EQ(DirName("a/b/c"), "a/b");
  EXPECT_EQ(DirName("c"), ".");
  EXPECT_EQ(DirName("/c"), "/");
}

}  // namespace
}  // namespace assay
