#include "storage/blob/disk_guard.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

std::string TempDir() {
  std::string name = testing::TempDir() + "/guardXXXXXX";
  return ::mkdtemp(name.data());
}

TEST(DiskGuard, RefusesBelowTheWatermarkAndNamesFolderAndFigures) {
  uint64_t free = 1000;
  DiskGuardOptions options;
  options.dir = TempDir();
  options.min_free_bytes = 900;
  options.ballast_bytes = 0;
  options.free_bytes = [&](const std::string&) { return free; };
  const auto guard = DiskGuard::Open(options).value();
  EXPECT_TRUE(guard->CheckRoom(100).ok());
  const absl::Status status = guard->CheckRoom(101);
  EXPECT_EQ(ReasonOf(status), "DISK_LOW");
  EXPECT_NE(MessageOf(status).find(options.dir), std::string::npos);
  EXPECT_EQ(ReasonOf(guard->CheckRoom(UINT64_MAX)), "DISK_LOW");
}

TEST(DiskGuard, GivesTheBallastUpWhenSpaceIsNearlyGoneAndMakesItAgain) {
  uint64_t free = 100000;
  DiskGuardOptions options;
  options.dir = TempDir();
  options.min_free_bytes = 40000;
  options.ballast_bytes = 4096;
  options.free_bytes = [&](const std::string&) { return free; };
  const auto guard = DiskGuard::Open(options).value();
  EXPECT_TRUE(guard->has_ballast());
  EXPECT_EQ(FileSize(options.dir + "/ballast").value(), 4096u);
  free = 20000;
  guard->Tend();
  EXPECT_TRUE(guard->low());
  EXPECT_TRUE(guard->has_ballast());
  free = 9999;
  guard->Tend();
  EXPECT_FALSE(guard->has_ballast());
  free = 100000;
  guard->Tend();
  EXPECT_FALSE(guard->low());
  EXPECT_TRUE(guard->has_ballast());
}

}  // namespace
}  // namespace assay
