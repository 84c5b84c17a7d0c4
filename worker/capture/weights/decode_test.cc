// Every format against values that gguf-py decoded, and the arithmetic of transforms.

#include "worker/capture/weights/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "storage/base/files.h"
#include "storage/format/gguf.h"
#include "storage/format/safetensors.h"
#include "worker/capture/weights/transform.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

class DecodeFixture : public testing::TestWithParam<const char*> {};

TEST_P(DecodeFixture, IsBitForBitGgufPys) {
  const auto packed = GgufFile::Open(DataPath("weights/gguf-quants.gguf"));
  const auto expected = SafetensorsFile::Open(DataPath("weights/gguf-quants.safetensors"));
  ASSERT_TRUE(packed.ok() && expected.ok());
  const GgufTensor* tensor = (*packed)->Find(GetParam());
  const auto values = (*expected)->Find(GetParam());
  ASSERT_NE(tensor, nullptr);
  ASSERT_TRUE(values.ok());
  const auto format = FormatOfGgml(tensor->type);
  ASSERT_TRUE(format.has_value());
  ASSERT_EQ(values->bytes.size(), tensor->elements() * 4);
  std::vector<float> out(tensor->elements());
  DecodeWeights(*format, tensor->bytes.data(), out.size(), out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t want, got;
    std::memcpy(&want, values->bytes.data() + 4 * i, 4);
    std::memcpy(&got, &out[i], 4);
    ASSERT_EQ(got, want) << GetParam() << "[" << i << "]";
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DecodeFixture,
                         testing::Values("q4_0.weight", "q4_1.weight", "q5_0.weight", "q5_1.weight",
                                         "q8_0.weight", "q2_k.weight", "q3_k.weight", "q4_k.weight",
                                         "q5_k.weight", "q6_k.weight", "iq4_nl.weight",
                                         "iq4_xs.weight", "mxfp4.weight", "nvfp4.weight",
                                         "f32.weight", "f16.weight", "bf16.weight",
                                         "one_dimensional.bias", "three_dimensional.weight"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name[name.find('.')] = '_';
                           return name;
                         });

TEST(Decode, OtherFormatsAreUnknown) {
  for (uint32_t type : {9u, 15u, 16u, 19u, 21u, 24u, 34u, 99u}) EXPECT_FALSE(FormatOfGgml(type));
  for (DType dtype : {DType::kI8, DType::kF64, DType::kF8E4M3}) EXPECT_FALSE(FormatOfDType(dtype));
  EXPECT_EQ(FormatOfDType(DType::kBF16), WeightFormat::kBF16);
}

// Scale 7 / 7 = 1: codes are the rounded values, halves go to even, and no -0 appears.
TEST(RoundToNearest, HalvesGoToEvenAndZeroIsPositive) {
  float row[8] = {7.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -0.25f};
  const float expected[8] = {7, 0, 2, 2, 0, -2, -2, 0};
  RoundRowToNearest(row, 8, 8, 4);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(row[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(row[i]), std::signbit(expected[i])) << i;
  }
}

// Against a scalar form with std::rint and division, for sizes that leave vector tails.
TEST(RoundToNearest, MatchesTheScalarFormula) {
  uint32_t state = 12345;
  for (uint64_t cols : {1, 3, 32, 60, 96}) {
    for (int bits : {2, 4, 8}) {
      std::vector<float> row(cols), expected(cols);
      float largest = 0;
      for (uint64_t i = 0; i < cols; ++i) {
        state = state * 1664525u + 1013904223u;
        row[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
        largest = std::max(largest, std::fabs(row[i]));
      }
      const float limit = static_cast<float>((1 << (bits - 1)) - 1);
      const float scale = largest / limit;
      for (uint64_t i = 0; i < cols; ++i) {
        const int code = static_cast<int>(std::rint(row[i] / scale));
        expected[i] = static_cast<float>(code) * scale;
      }
      RoundRowToNearest(row.data(), cols, cols, bits);
      EXPECT_EQ(row, expected) << cols << " x " << bits;
    }
  }
}

TEST(RoundToNearest, GroupsAreIndependent) {
  float row[6] = {1.0f, 0.3f, 0.0f, 0.0f, 1000.0f, 3.0f};
  RoundRowToNearest(row, 6, 2, 8);
  EXPECT_EQ(row[0], 127.0f * (1.0f / 127.0f));
  EXPECT_NE(row[1], 0.0f);  // a shared scale would have rounded it away
  EXPECT_EQ(row[2], 0.0f);
  EXPECT_EQ(row[3], 0.0f);
  EXPECT_EQ(row[5], 0.0f);
}

TEST(RoundToNearest, DamageStaysVisible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float row[10] = {1, nan, 2, 3, 4, 5, 6, 7, 8, nan};
  RoundRowToNearest(row, 10, 10, 4);
  EXPECT_TRUE(std::isnan(row[1]));
  EXPECT_TRUE(std::isnan(row[9]));
  float zeros[2] = {0, nan};
  RoundRowToNearest(zeros, 2, 2, 4);
  EXPECT_TRUE(std::isnan(zeros[1]));
}

}  // namespace
}  // namespace assay
