#include "client/cli/score_operands.h"

#include <cstdlib>

#include "client/cli/device_option.h"
#include "gtest/gtest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

LocalModel Named(const std::string& path, bool is_capture) {
  LocalModel model;
  model.text = model.path = path;
  model.is_capture = is_capture;
  return model;
}

TEST(HeadOptionsTest, AreOfCapturesAlone) {
  const LocalModel model = Named("m.gguf", false), capture = Named("cap", true);
  const std::vector<LabelledModel> candidates = {{"m", model, {}}, {"c", capture, {}}};
  HeadOptions none, head, of_candidate;
  head.head = "m.gguf";
  EXPECT_EQ(ReasonOf(CheckHeadOptions(none, capture, candidates)), "BAD_USAGE");
  EXPECT_TRUE(CheckHeadOptions(head, capture, candidates).ok());
  EXPECT_EQ(ReasonOf(CheckHeadOptions(head, model, candidates)), "BAD_USAGE");
  EXPECT_TRUE(CheckHeadOptions(none, model, candidates).ok());
  of_candidate.candidate_heads = {"c=m.gguf"};
  EXPECT_TRUE(CheckHeadOptions(of_candidate, model, candidates).ok());
  of_candidate.candidate_heads = {"m=m.gguf"};
  EXPECT_EQ(ReasonOf(CheckHeadOptions(of_candidate, model, candidates)), "BAD_USAGE");
  of_candidate.candidate_heads = {"other=m.gguf"};
  EXPECT_EQ(ReasonOf(CheckHeadOptions(of_candidate, model, candidates)), "LABEL_UNKNOWN");
}

TEST(DeviceOptionTest, NamesProcessorsAndTheBackendThatTheyMean) {
  const char* before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before == nullptr ? "" : before;
  std::string backend = "auto";
  EXPECT_TRUE(ApplyDevice("auto", &backend).ok());
  EXPECT_EQ(backend, "auto");
  EXPECT_TRUE(ApplyDevice("cpu", &backend).ok());
  EXPECT_EQ(backend, "auto");
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_TRUE(ApplyDevice("cuda:0,3", &backend).ok());
  EXPECT_EQ(backend, "cuda-bf16");
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "0,3");
  EXPECT_EQ(ReasonOf(ApplyDevice("cpu", &backend)), "DEVICE_INVALID");
  for (const char* wrong : {"gpu", "cuda", "cuda:", "cuda:a", "cuda:1,", "cuda:,1", "cuda:1,,2"}) {
    EXPECT_EQ(ReasonOf(ApplyDevice(wrong, nullptr)), "DEVICE_INVALID") << wrong;
  }
  if (before == nullptr) {
    unsetenv("CUDA_VISIBLE_DEVICES");
  } else {
    setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace assay
