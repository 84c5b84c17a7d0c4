#include "storage/base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/base/sync_trace_test_util.h"

namespace assay {
namespace {

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-atomic-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    path_ = JoinPath(dir_, "f");
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }
  std::string dir_, path_;
};

TEST_F(AtomicFileTest, AppearsOnlyAtCommit) {
  ASSERT_TRUE(WriteFile(path_, "old").ok());
  const auto file = AtomicFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("ne").ok());
  EXPECT_EQ(*ReadFile(path_, 100), "old");
  ASSERT_TRUE((*file)->Append("w").ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(*ReadFile(path_, 100), "new");
  EXPECT_EQ(ListDirectory(dir_)->size(), 1u);
}

TEST_F(AtomicFileTest, AbandonedWritesLeaveNothing) {
  ASSERT_TRUE(WriteFile(path_, "old").ok());
  {
    const auto file = AtomicFile::Create(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append("new").ok());
  }
  EXPECT_EQ(*ReadFile(path_, 100), "old");
  EXPECT_EQ(ListDirectory(dir_)->size(), 1u);
}

// Otherwise a machine that stops shows an empty or a torn file under the final name.
TEST_F(AtomicFileTest, BytesAreDurableBeforeTheNameAndTheNameBeforeSuccess) {
  using testing::ElementsAre;
  using testing::MatchesRegex;
  const std::string root = std::filesystem::canonical(dir_).string();
  {
    const auto file = AtomicFile::Create(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append("bytes").ok());
    const SyncTrace trace;
    ASSERT_TRUE((*file)->Commit().ok());
    EXPECT_THAT(trace.calls(),
                ElementsAre(MatchesRegex("sync .*/f\\.part\\..*"),
                            MatchesRegex("rename .*/f\\.part\\..* -> " + path_), "sync " + root));
  }
  const SyncTrace trace;
  ASSERT_TRUE(WriteFileAtomic(path_, "other bytes").ok());
  EXPECT_THAT(trace.calls(),
              ElementsAre(MatchesRegex("sync .*/f\\.tmp\\..*"),
                          MatchesRegex("rename .*/f\\.tmp\\..* -> " + path_), "sync " + root));
}

TEST_F(AtomicFileTest, MissingFolderIsNamed) {
  const auto file = AtomicFile::Create(JoinPath(dir_, "absent/f"));
  EXPECT_EQ(ReasonOf(file.status()), "FILE_MISSING");
}

}  // namespace
}  // namespace assay
