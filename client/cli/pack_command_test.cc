// assay pack: where its file may lie.

#include <stdlib.h>

#include "client/cli/cli_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

TEST(PackCommand, AFileInsideThePackedFolderIsRefused) {
  std::string dir = ::testing::TempDir() + "assay-pack-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const std::string result = dir + "/result";
  ASSERT_TRUE(EnsureDirectory(result + "/int4").ok());
  for (const std::string& file : {result + "/x.tar", result + "/int4/x.tar",
                                  result + "/./new/x.tar", result + "/../result/x.tar"}) {
    const CliOutcome outcome = Invoke({"pack", result.c_str(), "-o", file.c_str()});
    EXPECT_EQ(outcome.code, 2) << file;
    EXPECT_THAT(outcome.err, HasSubstr(file + ": lies in the folder " + result));
    EXPECT_FALSE(FileExists(file)) << file;
  }
  // Beside it, and with its name as a beginning, is outside: what is refused is the empty folder.
  for (const std::string& file : {dir + "/x.tar", result + ".tar"}) {
    const CliOutcome outcome = Invoke({"pack", result.c_str(), "-o", file.c_str()});
    EXPECT_THAT(outcome.err, HasSubstr("NOTHING_TO_PACK")) << file;
  }
  RemoveTree(dir).IgnoreError();
}

}  // namespace
}  // namespace assay
