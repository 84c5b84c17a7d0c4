#include "storage/format/head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "storage/base/digest.h"
#include "storage/base/f16.h"
#include "storage/base/status.h"
#include "storage/format/format_test_util.h"

namespace assay {
namespace {

class HeadTest : public TempDirTest {
 protected:
  std::string PutHead(const std::vector<std::pair<std::string, DType>>& tensors) {
    SafetensorsBuilder builder;
    for (const auto& [name, dtype] : tensors)
      builder.Add(name, dtype, {2, 3}, std::vector<uint8_t>(6 * DTypeBytes(dtype), 1));
    return Put("h.safetensors", builder.Build());
  }
  std::string Chosen(const std::string& path, std::string_view tensor) {
    const auto head = InspectHead(path, tensor);
    return head.ok() ? head->tensor : ReasonOf(head.status());
  }
};

TEST_F(HeadTest, TensorIsChosenAsPublishedReadersDo) {
  const DType b = DType::kBF16;
  EXPECT_EQ(Chosen(PutHead({{"a", b}, {"lm_head.weight", b}, {"weight", b}}), ""), "weight");
  EXPECT_EQ(Chosen(PutHead({{"a", b}, {"lm_head.weight", b}}), ""), "lm_head.weight");
  EXPECT_EQ(Chosen(PutHead({{"z", b}, {"a", b}}), ""), "z");
  EXPECT_EQ(Chosen(PutHead({{"z", b}, {"a", b}}), "a"), "a");
  EXPECT_EQ(Chosen(PutHead({{"z", b}, {"a", b}}), "q"), "HEAD_INVALID");
  EXPECT_EQ(Chosen(PutHead({}), ""), "HEAD_INVALID");
  EXPECT_EQ(Chosen(PutHead({{"weight", DType::kI8}}), ""), "HEAD_INVALID");
  SafetensorsBuilder vector;
  vector.Add("weight", b, {4}, std::vector<uint8_t>(8));
  EXPECT_EQ(Chosen(Put("v.safetensors", vector.Build()), ""), "HEAD_INVALID");
}

// 1.00390625 lies half way between two bf16 values and goes to the even one, 1.0; the next
// float32 goes up. All three dtypes of the same values have one content digest.
TEST_F(HeadTest, ContentDigestIsOfTheValuesAsBf16) {
  const float values[4] = {1.00390625f, std::nextafter(1.00390625f, 2.0f), -2.0f, 0.0f};
  const uint16_t expected[4] = {0x3f80, 0x3f81, 0xc000, 0};
  SafetensorsBuilder f32, bf16;
  f32.Add("weight", DType::kF32, {2, 2}, {reinterpret_cast<const uint8_t*>(values), sizeof values});
  bf16.Add("weight", DType::kBF16, {2, 2},
           {reinterpret_cast<const uint8_t*>(expected), sizeof expected});
  const auto a = InspectHead(Put("a.safetensors", f32.Build()), "");
  const auto b = InspectHead(Put("b.safetensors", bf16.Build()), "");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->content_sha256, b->content_sha256);
  EXPECT_EQ(b->content_sha256,
            Sha256Hex(std::string(reinterpret_cast<const char*>(expected), sizeof expected)));
  EXPECT_NE(a->file_sha256, b->file_sha256);
  EXPECT_EQ(a->vocab, 2u);
  EXPECT_EQ(a->hidden, 2u);
}

TEST_F(HeadTest, BiasIsFoundWidenedAndChecked) {
  const std::vector<uint8_t> weight(2 * 3 * 2);
  const uint16_t halves[2] = {0x3c00, 0xc000};  // 1, -2
  const uint16_t brains[2] = {0x3f80, 0xc000};  // the same as bf16
  const float floats[2] = {1.0f, -2.0f};
  const auto add = [](SafetensorsBuilder* b, const char* name, DType dtype, const void* from) {
    b->Add(name, dtype, {2}, {static_cast<const uint8_t*>(from), 2 * DTypeBytes(dtype)});
  };
  SafetensorsBuilder all;
  all.Add("lm_head.weight", DType::kBF16, {2, 3}, weight);
  add(&all, "lm_head.bias", DType::kF16, halves);
  add(&all, "other", DType::kBF16, brains);
  add(&all, "third", DType::kF32, floats);
  const auto file = SafetensorsFile::Open(Put("all.safetensors", all.Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(BiasBeside(**file, "lm_head.weight"), "lm_head.bias");
  EXPECT_EQ(BiasBeside(**file, "other"), "");
  EXPECT_EQ(BiasBeside(**file, "x.weight"), "");
  for (const char* name : {"", "other", "third"}) {
    const auto bias = ReadHeadBias(**file, name, 2);
    ASSERT_TRUE(bias.ok()) << bias.status();
    EXPECT_EQ(bias->tensor, *name == '\0' ? "lm_head.bias" : name);
    EXPECT_EQ(bias->values, (std::vector<float>{1.0f, -2.0f}));
    EXPECT_EQ(bias->content_sha256,
              Sha256Hex(std::string(reinterpret_cast<const char*>(floats), sizeof floats)));
  }
  for (const char* name : {"nothing", "lm_head.weight"}) {
    EXPECT_EQ(ReasonOf(ReadHeadBias(**file, name, 2).status()), "HEAD_INVALID") << name;
  }
  EXPECT_EQ(ReasonOf(ReadHeadBias(**file, "third", 3).status()), "HEAD_INVALID");
}

// Every half value against the definition: (-1)^s 2^(e-15) (1 + m/1024), subnormals m 2^-24.
TEST(F16, WideningIsExactForAllValues) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const float got = F16ToFloat(static_cast<uint16_t>(bits));
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      continue;
    }
    double expected = exponent == 0    ? std::ldexp(mantissa, -24)
                      : exponent == 31 ? HUGE_VAL
                                       : std::ldexp(1024 + mantissa, exponent - 25);
    if (bits & 0x8000) expected = -expected;
    EXPECT_EQ(got, static_cast<float>(expected)) << bits;
    EXPECT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
  }
}

// Signs do not count; what is not finite neither.
TEST_F(HeadTest, MaxAbsIsTheLargestFiniteMagnitude) {
  const auto max_of = [&](DType dtype, const auto& values) {
    SafetensorsBuilder builder;
    builder.Add(
        "weight", dtype, {1, values.size()},
        {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(values[0])});
    const auto head = InspectHead(Put("m.safetensors", builder.Build()), "");
    return head.ok() ? head->max_abs : -1;
  };
  EXPECT_EQ(max_of(DType::kF32, std::vector<float>{1, -2.5f, 0, NAN, INFINITY, -INFINITY}), 2.5);
  EXPECT_EQ(max_of(DType::kF32, std::vector<float>{0x1p60f, -0x1p61f}), 0x1p61);
  // bf16 0x3f80 = 1, 0xc020 = -2.5, 0x7f80 = infinity, 0x7fc0 = NaN.
  EXPECT_EQ(max_of(DType::kBF16, std::vector<uint16_t>{0x3f80, 0xc020, 0x7f80, 0x7fc0}), 2.5);
  // f16 0x3c00 = 1, 0xc100 = -2.5, 0xfc00 = -infinity.
  EXPECT_EQ(max_of(DType::kF16, std::vector<uint16_t>{0x3c00, 0xc100, 0xfc00}), 2.5);
  EXPECT_EQ(max_of(DType::kBF16, std::vector<uint16_t>{0, 0x8000}), 0);
}

}  // namespace
}  // namespace assay
