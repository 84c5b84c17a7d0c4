// Packed formats of Hugging Face checkpoints against what trusted decoders made of them.

#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/files.h"
#include "worker/capture/weights/weight_cases_test_util.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

class PackedFixture : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(PackedFixture, EveryCaseDecodesBitForBitHoweverItIsCut) {
  const auto [stem, count] = GetParam();
  const auto file =
      SafetensorsFile::Open(DataPath(std::string("weights/") + stem + ".safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  const Json cases = Json::parse((*file)->metadata().at("cases"));
  EXPECT_EQ(cases.size(), static_cast<size_t>(count));
  for (const auto& [name, about] : cases.items()) {
    const auto c = ReadWeightCase(**file, name, about);
    ASSERT_TRUE(c.ok()) << c.status();
    const auto opened = OpenCase(*c);
    ASSERT_TRUE(opened.ok()) << name << ": " << opened.status();
    for (uint64_t step : {uint64_t{1}, uint64_t{3}, uint64_t{8}, c->query.rows})
      EXPECT_EQ(CompareBits(DecodeCase(*c, *opened->tensor, step), c->expected), "")
          << name << " in steps of " << step << " rows";
    // Every tensor of a case but activation scales is accounted for; shapes take no bytes.
    uint64_t bytes = 0;
    for (const auto& [tensor, view] : c->tensors) {
      if (IsActivationScale(tensor)) continue;
      EXPECT_NE(std::find(opened->used.begin(), opened->used.end(), tensor), opened->used.end())
          << name << ": " << tensor;
      if (!tensor.ends_with(".weight_shape")) bytes += view.bytes.size();
    }
    // A symmetric GPTQ matrix ignores its stored zeros, but they are in the file.
    EXPECT_EQ(opened->tensor->bytes(), bytes) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PackedFixture,
                         testing::Values(std::pair("awq", 2), std::pair("ct-float-quantized", 3),
                                         std::pair("ct-int-quantized", 2), std::pair("ct-int4", 5),
                                         std::pair("ct-int8", 3), std::pair("ct-odd-bits", 5),
                                         std::pair("fp8-block", 4), std::pair("gptq", 7),
                                         std::pair("gptq3", 4), std::pair("mxfp4", 3),
                                         std::pair("mxfp8", 1), std::pair("nvfp4", 3)),
                         [](const auto& info) {
                           std::string name = info.param.first;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace assay
