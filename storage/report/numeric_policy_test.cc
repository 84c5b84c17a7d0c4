#include "storage/report/numeric_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using testing::HasSubstr;

TEST(OutFolder, ResultsOfOtherWorkAreNotReplaced) {
  const std::string out = testing::TempDir() + "/assay-out-folder";
  ASSERT_TRUE(RemoveTree(out).ok());
  EXPECT_TRUE(CheckOutPolicy(out, "exact", "cpu-f32").ok());
  EXPECT_TRUE(CheckOutSuite(out, "aa").ok());
  ASSERT_TRUE(EnsureDirectory(out).ok());
  ASSERT_TRUE(WriteFileAtomic(out + "/summary.json",
                              R"({"candidates":[{"label":"failed"},{"policy":"exact",)"
                              R"("backend":"cpu-bf16","suite_token_sha256":"aa"}]})")
                  .ok());
  EXPECT_TRUE(CheckOutPolicy(out, "exact").ok());
  EXPECT_TRUE(CheckOutPolicy(out, "exact", "cpu-bf16").ok());
  EXPECT_TRUE(CheckOutSuite(out, "aa").ok());

  const absl::Status policy = CheckOutPolicy(out, "torch-bf16");
  EXPECT_EQ(ReasonOf(policy), "OUT_POLICY_DIFFERS");
  EXPECT_THAT(MessageOf(policy), HasSubstr("--policy exact"));
  const absl::Status backend = CheckOutPolicy(out, "exact", "cpu-f32");
  EXPECT_EQ(ReasonOf(backend), "OUT_BACKEND_DIFFERS");
  EXPECT_THAT(MessageOf(backend), HasSubstr("--backend cpu-bf16"));
  EXPECT_EQ(ReasonOf(CheckOutSuite(out, "bb")), "OUT_SUITE_DIFFERS");
  EXPECT_TRUE(RemoveTree(out).ok());
}

}  // namespace
}  // namespace assay
