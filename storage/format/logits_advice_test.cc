// A logits file of llama.cpp in the place of a model or a capture.

#include "storage/format/logits_advice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/model_files.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

TEST(LogitsAdvice, NamesTheCommandsForBothGenerations) {
  const std::string path = ::testing::TempDir() + "assay-base.kld";
  for (const char* magic : {"_logits_", "_logits2"}) {
    ASSERT_TRUE(WriteFile(path, std::string(magic) + std::string(64, 'x')).ok());
    const absl::Status model = ResolveModelFiles(path).status();
    EXPECT_EQ(ReasonOf(model), "MODEL_UNRECOGNISED");
    EXPECT_THAT(MessageOf(model), HasSubstr("assay logits compare"));
    const absl::Status capture = ReadCaptureManifest(path).status();
    EXPECT_EQ(ReasonOf(capture), "CAPTURE_EXPECTED");
    EXPECT_THAT(MessageOf(capture), HasSubstr("assay import llamacpp-logits"));
  }
  for (const std::string other : {"", "_logit", "GGUF", "{\"logits\": 1}"}) {
    ASSERT_TRUE(WriteFile(path, other).ok());
    EXPECT_EQ(LogitsFileAdvice(path), "") << other;
  }
  EXPECT_EQ(LogitsFileAdvice(path + ".none"), "");
  EXPECT_EQ(LogitsFileAdvice(::testing::TempDir()), "");
  RemoveTree(path).IgnoreError();
}

}  // namespace
}  // namespace assay
