#include "storage/base/temporary_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "storage/base/files.h"

namespace assay {
namespace {

TEST(TemporaryFile, IsKnownByItsNameAlone) {
  const std::string name = TemporaryName("report.json");
  EXPECT_NE(name, TemporaryName("report.json"));
  EXPECT_TRUE(IsTemporaryOf(name, "report.json"));
  EXPECT_FALSE(IsTemporaryOf(name, "report"));
  EXPECT_TRUE(IsTemporaryOf("a.tmp.12.0", "a"));
  for (const char* other : {"a", "a.tmp", "a.tmp.", "a.tmp.1", "a.tmp.1.", "a.tmp..1", "a.tmp.0.1",
                            "a.tmp.-1.1", "a.tmp.1.x", "a.tmp.1.1x", "a.tmp.x.1", "a.tmp.1.1.1"})
    EXPECT_FALSE(IsTemporaryOf(other, "a")) << other;
}

TEST(TemporaryFile, OnlyThoseOfDeadProcessesAreRemoved) {
  std::string folder = testing::TempDir() + "/temporariesXXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  ASSERT_EQ(waitpid(dead, nullptr, 0), dead);
  const std::string stale = "a.tmp." + std::to_string(dead) + ".3";
  const std::string live = "a.tmp." + std::to_string(getpid()) + ".3";
  const std::string folder_like = "b.tmp." + std::to_string(dead);
  for (const std::string& name : {std::string("a"), stale, live, folder_like})
    ASSERT_TRUE(WriteFile(JoinPath(folder, name), "x").ok());
  ASSERT_TRUE(RemoveTemporaries(folder).ok());
  EXPECT_EQ(ListDirectory(folder).value(), (std::vector<std::string>{"a", live, folder_like}));
  EXPECT_TRUE(RemoveTemporaries(JoinPath(folder, "missing")).ok());
  RemoveTree(folder).IgnoreError();
}

}  // namespace
}  // namespace assay
