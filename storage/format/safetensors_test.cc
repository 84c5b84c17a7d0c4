#include "storage/format/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/format/format_test_util.h"

namespace assay {
namespace {

std::string FileOf(const std::string& header, uint64_t payload) {
  std::string out(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(out.data(), &size, 8);
  return out + header + std::string(payload, '\x5a');
}

std::string ReasonOfParse(const std::string& bytes) {
  const ExactBytes exact(bytes);
  const auto file = SafetensorsFile::Parse(exact.span(), "x.safetensors");
  return file.ok() ? "OK" : ReasonOf(file.status());
}

TEST(Safetensors, ReadsAFileOfAnotherWriter) {
  const auto file =
      SafetensorsFile::Open(DataPath("smollm2/captures/oracle64/reference/"
                                     "hidden_0001.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto tensor = (*file)->Find("hidden_states");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->dtype, DType::kBF16);
  EXPECT_EQ(tensor->shape, (std::vector<uint64_t>{63, 576}));
  EXPECT_EQ(tensor->bytes.size(), 63u * 576 * 2);
  EXPECT_EQ(ReasonOf((*file)->Find("other").status()), "TENSOR_MISSING");
}

TEST(Safetensors, ReadsMetadataAndScalars) {
  const std::string bytes = FileOf(
      R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"U8","shape":[0,4],"data_offsets":[8,8]}}   )",
      8);
  const ExactBytes exact(bytes);
  const auto file = SafetensorsFile::Parse(exact.span(), "x");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  EXPECT_EQ((*file)->Find("s")->elements(), 1u);
  EXPECT_EQ((*file)->Find("e")->bytes.size(), 0u);
}

// The header of a published hidden file is 88 bytes for [2047, 5120] (qwen-suites 2.1).
TEST(Safetensors, BuilderWritesThePublishedLayout) {
  const std::string header = SafetensorsHeader({{"hidden_states", DType::kBF16, {2047, 5120}}});
  EXPECT_EQ(header.size(), 8u + 88u);
  EXPECT_EQ(
      header.substr(8),
      R"({"hidden_states":{"dtype":"BF16","shape":[2047,5120],"data_offsets":[0,20961280]}})" +
          std::string(6, ' '));
}

TEST(Safetensors, BuilderRoundTripsSeveralTensors) {
  const std::vector<uint8_t> a = {1, 2, 3, 4}, b = {9};
  SafetensorsBuilder builder;
  builder.Add("b", DType::kBF16, {1, 2}, a);
  builder.Add("a", DType::kU8, {1}, b);
  const ExactBytes exact(builder.Build());
  const auto file = SafetensorsFile::Parse(exact.span(), "x");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  EXPECT_EQ((*file)->tensors()[0].name, "b");
  EXPECT_TRUE(std::ranges::equal((*file)->Find("b")->bytes, a));
  EXPECT_TRUE(std::ranges::equal((*file)->Find("a")->bytes, b));
}

struct BadFile {
  const char* what;
  const char* header;
  uint64_t payload;
};

class SafetensorsRefused : public testing::TestWithParam<BadFile> {};

TEST_P(SafetensorsRefused, ByName) {
  EXPECT_EQ(ReasonOfParse(FileOf(GetParam().header, GetParam().payload)), "SAFETENSORS_INVALID")
      << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Headers, SafetensorsRefused,
    testing::Values(
        BadFile{"overlap",
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                6},
        BadFile{"hole",
                R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                6},
        BadFile{"rest", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5},
        BadFile{"beyond", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3},
        BadFile{"size", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})", 4},
        BadFile{"overflow",
                R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0},
        BadFile{"reversed", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4},
        BadFile{"negative", R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4},
        BadFile{"fraction", R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4},
        BadFile{"dtype", R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,4]}})", 4},
        BadFile{"rank", R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]}})",
                4},
        BadFile{"twice",
                R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                4},
        BadFile{"extra", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4},
        BadFile{"list", R"([1])", 0}, BadFile{"text", R"({"a":)", 0},
        BadFile{"metadata", R"({"__metadata__":{"a":1}})", 0}),
    [](const auto& info) { return std::string(info.param.what); });

// Whatever a damaged header says, the answer is an error or tensors inside the file.
TEST(Safetensors, TruncationsAndBitFlipsNeverReachOutside) {
  const std::vector<uint8_t> values(24, 7);
  SafetensorsBuilder builder;
  builder.Add("w", DType::kF32, {2, 3}, values);
  builder.Add("bias", DType::kBF16, {12}, values);
  const std::string whole = builder.Build();
  const size_t header = whole.size() - 48;
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(ReasonOfParse(whole.substr(0, n)), "SAFETENSORS_INVALID") << n;
  }
  for (size_t bit = 0; bit < header * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const ExactBytes exact(damaged);
    const auto file = SafetensorsFile::Parse(exact.span(), "x");
    if (!file.ok()) {
      EXPECT_EQ(ReasonOf(file.status()), "SAFETENSORS_INVALID");
      continue;
    }
    for (const TensorView& tensor : (*file)->tensors()) {
      EXPECT_EQ(tensor.bytes.size(), tensor.elements() * DTypeBytes(tensor.dtype));
      EXPECT_GE(tensor.bytes.data(), exact.span().data());
      EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), exact.span().data() + damaged.size());
    }
  }
}

TEST(Safetensors, MissingFileIsNamed) {
  const auto file = SafetensorsFile::Open("/nonexistent/x.safetensors");
  EXPECT_EQ(ReasonOf(file.status()), "FILE_MISSING");
  EXPECT_NE(MessageOf(file.status()).find("/nonexistent/x.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace assay
