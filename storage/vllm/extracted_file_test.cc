#include "storage/vllm/extracted_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "storage/base/status.h"
#include "storage/vllm/vllm_test_util.h"

namespace assay {
namespace {

using testing::HasSubstr;

using ExtractedFileTest = VllmTest;

// [tokens, layers, width] of layers 2 and 3, or the older [layers, tokens, width].
std::vector<float> Stack(const std::vector<float>& a, const std::vector<float>& b,
                         bool tokens_first) {
  std::vector<float> out;
  if (!tokens_first) {
    out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  for (size_t at = 0; at < a.size(); at += kTestWidth) {
    const auto row = static_cast<ptrdiff_t>(at), end = static_cast<ptrdiff_t>(at + kTestWidth);
    out.insert(out.end(), a.begin() + row, a.begin() + end);
    out.insert(out.end(), b.begin() + row, b.begin() + end);
  }
  return out;
}

TEST_F(ExtractedFileTest, BothAxisOrdersGiveTheRowsOfTheLayer) {
  const std::vector<float> two = Residual("seq1", 2), three = Residual("seq1", 3);
  for (const bool tokens_first : {true, false}) {
    const std::vector<uint64_t> shape = tokens_first
                                            ? std::vector<uint64_t>{kTestLength, 2, kTestWidth}
                                            : std::vector<uint64_t>{2, kTestLength, kTestWidth};
    const auto file = VllmExtractedFile::Open(
        Write("a", Stack(two, three, tokens_first), shape, Ids("seq1")), std::nullopt);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(VllmAxesName(file->axes()), tokens_first ? "tokens-first" : "layers-first");
    EXPECT_EQ(file->layers(), 2u);
    EXPECT_EQ(file->tokens(), Ids("seq1"));
    EXPECT_EQ(file->Rows(0, kTestLength), two);
    EXPECT_EQ(file->Rows(1, kTestLength), three);
  }
}

TEST_F(ExtractedFileTest, AShapeThatCouldBeEitherOrderIsAskedAbout) {
  const std::vector<float> states(kTestLength * kTestLength, 1.0f);
  const std::string path = Write("a", states, {kTestLength, kTestLength, 1}, Ids("seq1"));
  const absl::Status asked = VllmExtractedFile::Open(path, std::nullopt).status();
  EXPECT_EQ(ReasonOf(asked), "AXES_AMBIGUOUS");
  EXPECT_THAT(MessageOf(asked), HasSubstr("33 tokens and 33 layers"));
  EXPECT_TRUE(VllmExtractedFile::Open(path, VllmAxes::kLayersFirst).ok());
  const std::string other = WriteLast("b", "seq1");
  EXPECT_EQ(ReasonOf(VllmExtractedFile::Open(other, VllmAxes::kLayersFirst).status()),
            "SHAPE_MISMATCH");
}

TEST_F(ExtractedFileTest, OtherFilesAndCutPromptsAreRefused) {
  const std::vector<float> half(16 * kTestWidth, 1.0f);
  const absl::Status cut =
      VllmExtractedFile::Open(Write("a", half, {16, 1, kTestWidth}, Ids("seq1")), std::nullopt)
          .status();
  EXPECT_EQ(ReasonOf(cut), "SHAPE_MISMATCH");
  EXPECT_THAT(MessageOf(cut), HasSubstr("chunked prefill"));
  const absl::Status other =
      VllmExtractedFile::Open(LlamaFolder() + "/model.safetensors", std::nullopt).status();
  EXPECT_EQ(ReasonOf(other), "TENSOR_MISSING");
  EXPECT_THAT(MessageOf(other), HasSubstr("hidden-state extractor"));
  SafetensorsBuilder builder;
  builder.Add("hidden_states", DType::kI32, {1, 1, 1}, std::vector<uint8_t>(4));
  builder.Add("token_ids", DType::kI64, {1}, std::vector<uint8_t>(8));
  EXPECT_EQ(
      ReasonOf(
          VllmExtractedFile::Open(Put("x.safetensors", builder.Build()), std::nullopt).status()),
      "DTYPE_UNSUPPORTED");
}

TEST_F(ExtractedFileTest, FoldersWithoutReadableFilesSayWhatToGive) {
  EXPECT_EQ(ReasonOf(ListVllmFiles(dir_ + "/none").status()), "FILE_MISSING");
  EXPECT_EQ(ReasonOf(ListVllmFiles(dir_).status()), "FILE_MISSING");
  Put("a.safetensors.zst", "x");
  EXPECT_EQ(ReasonOf(ListVllmFiles(dir_).status()), "DTYPE_UNSUPPORTED");
}

TEST_F(ExtractedFileTest, AFileThatIsStillWrittenIsBusy) {
  const std::string path = WriteLast("a", "seq1");
  EXPECT_TRUE(CheckVllmFileFinished(path).ok());
  const int lock = open((path + ".lock").c_str(), O_CREAT | O_WRONLY, 0644);
  ASSERT_GE(lock, 0);
  EXPECT_TRUE(CheckVllmFileFinished(path).ok());
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  EXPECT_EQ(ReasonOf(CheckVllmFileFinished(path)), "FILE_BUSY");
  close(lock);
}

}  // namespace
}  // namespace assay
