#include "storage/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace assay {
namespace {

TEST(StatusTest, ReasonSurvivesAnnotation) {
  const absl::Status inner = InvalidError("TOKEN_OUT_OF_RANGE", "token 7");
  const absl::Status outer = Annotate(inner, "context 3");
  EXPECT_EQ(ReasonOf(outer), "TOKEN_OUT_OF_RANGE");
  EXPECT_EQ(MessageOf(outer), "context 3: token 7");
  EXPECT_EQ(outer.code(), absl::StatusCode::kInvalidArgument);
}

TEST(StatusTest, ErrnoTokens) {
  EXPECT_EQ(ReasonOf(ErrnoError(ENOSPC, "writing x")), "DISK_FULL");
  EXPECT_EQ(ReasonOf(ErrnoError(ENOENT, "opening x")), "FILE_MISSING");
  EXPECT_EQ(ReasonOf(ErrnoError(EACCES, "opening x")), "FILE_DENIED");
  EXPECT_EQ(ReasonOf(ErrnoError(EIO, "reading x")), "FILE_IO");
}

TEST(StatusTest, OkHasNoReason) { EXPECT_EQ(ReasonOf(absl::OkStatus()), ""); }

}  // namespace
}  // namespace assay
