#include "storage/format/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "storage/base/status.h"
#include "storage/format/format_test_util.h"

namespace assay {
namespace {

// Writes containers field by field, so that each field can lie.
class Writer {
 public:
  template <typename T>
  Writer& Num(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& Str(const std::string& text) { return Num(uint64_t{text.size()}).Raw(text); }
  Writer& Raw(const std::string& bytes) {
    out_ += bytes;
    return *this;
  }
  Writer& Head(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return Raw("GGUF").Num(version).Num(tensors).Num(keys);
  }
  Writer& Tensor(const std::string& name, std::vector<uint64_t> ne, uint32_t type,
                 uint64_t offset) {
    Str(name).Num(static_cast<uint32_t>(ne.size()));
    for (uint64_t dim : ne) Num(dim);
    return Num(type).Num(offset);
  }
  Writer& Data(uint64_t bytes, uint64_t alignment = 32) {
    out_.append((alignment - out_.size() % alignment) % alignment, '\0');
    out_.append(bytes, '\x11');
    return *this;
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

std::string ReasonOfParse(const std::string& bytes) {
  const ExactBytes exact(bytes);
  const auto file = GgufFile::Parse(exact.span(), "x.gguf");
  return file.ok() ? "OK" : ReasonOf(file.status());
}

// Values written by gguf-py (fixtures of weights).
TEST(Gguf, ReadsMetadataOfEveryType) {
  const auto opened = GgufFile::Open(DataPath("weights/gguf-quants.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const GgufFile& file = **opened;
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(*file.String("general.architecture"), "llama");
  EXPECT_EQ(*file.Int("test.u8", 0, 255), 200);
  EXPECT_EQ(*file.Int("test.i8", -128, 127), -3);
  EXPECT_EQ(*file.Int("test.u16", 0, 65535), 65000);
  EXPECT_EQ(*file.Int("test.i16", -400, 0), -300);
  EXPECT_EQ(*file.Int("test.u32", 0, INT64_MAX), 4000000000);
  EXPECT_EQ(*file.Int("test.i32", INT64_MIN, 0), -70000);
  EXPECT_EQ(*file.Int("test.i64", INT64_MIN, 0), -1099511627776);
  EXPECT_EQ(std::get<uint64_t>(file.kv().at("test.u64").scalar), 9223372036854775813u);
  EXPECT_EQ(*file.Number("test.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(*file.Number("test.f64"), 0.1);
  EXPECT_TRUE(std::get<bool>(file.kv().at("test.bool").scalar));
  EXPECT_EQ(*file.String("test.str"), "na\u00efve \u2713");
  EXPECT_EQ(file.kv().at("test.strings").count, 3u);
  EXPECT_EQ(GgufStrings(file.kv().at("test.strings")),
            (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_TRUE(GgufStrings(file.kv().at("test.ints")).empty());
  const GgufValue& ints = file.kv().at("test.ints");
  ASSERT_EQ(ints.count, 3u);
  int32_t middle;
  std::memcpy(&middle, ints.array_bytes.data() + 4, 4);
  EXPECT_EQ(middle, -2);
}

TEST(Gguf, TypedAccessRefusesOtherTypesAndRanges) {
  const auto file = GgufFile::Open(DataPath("weights/gguf-quants.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ReasonOf((*file)->Int("absent", 0, 1).status()), "FIELD_MISSING");
  for (const char* key : {"test.str", "test.f32", "test.bool", "test.ints", "test.u64", "test.u8"})
    EXPECT_EQ(ReasonOf((*file)->Int(key, 0, 100).status()), "FIELD_INVALID") << key;
  EXPECT_EQ(ReasonOf((*file)->Number("test.str").status()), "FIELD_INVALID");
  EXPECT_EQ(ReasonOf((*file)->String("test.u8").status()), "FIELD_INVALID");
}

// Tensor ti holds 10i, 10i+1, ... (5+i values), at offsets aligned to 64.
TEST(Gguf, HonoursAlignment) {
  const auto file = GgufFile::Open(DataPath("weights/gguf-align64.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->alignment(), 64u);
  for (uint64_t t = 0; t < 3; ++t) {
    const GgufTensor* tensor =
        (*file)->Find(std::string("t").append(std::to_string(t)).append(".weight"));
    ASSERT_NE(tensor, nullptr);
    ASSERT_EQ(tensor->elements(), 5 + t);
    for (uint64_t i = 0; i < tensor->elements(); ++i) {
      float value;
      std::memcpy(&value, tensor->bytes.data() + 4 * i, 4);
      EXPECT_EQ(value, static_cast<float>(10 * t + i));
    }
  }
}

TEST(Gguf, VersionTwoAndEmptyFilesAreRead) {
  EXPECT_EQ(ReasonOfParse(Writer().Head(0, 0, 2).bytes()), "OK");
  EXPECT_EQ(ReasonOfParse(Writer().Head(1, 0).Tensor("a", {8}, 0, 0).Data(32).bytes()), "OK");
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* reason = "GGUF_INVALID";
};

class GgufRefused : public testing::TestWithParam<BadFile> {};
TEST_P(GgufRefused, ByName) { EXPECT_EQ(ReasonOfParse(GetParam().bytes), GetParam().reason); }

Writer Key(const std::string& name, GgufType type) {
  return Writer().Head(0, 1).Str(name).Num(static_cast<uint32_t>(type));
}
std::string One(std::vector<uint64_t> ne, uint32_t type, uint64_t offset, uint64_t data) {
  return Writer().Head(1, 0).Tensor("a", std::move(ne), type, offset).Data(data).bytes();
}
Writer Aligned(uint32_t value) {
  return Writer().Head(0, 1).Str("general.alignment").Num(uint32_t{4}).Num(value);
}
constexpr uint64_t kHuge = uint64_t{1} << 62;

INSTANTIATE_TEST_SUITE_P(
    Containers, GgufRefused,
    testing::Values(
        BadFile{"magic", Writer().Raw("GGML").Num(uint32_t{3}).bytes()},
        BadFile{"version1", Writer().Head(0, 0, 1).bytes()},
        BadFile{"big_endian", Writer().Head(0, 0, 0x03000000).bytes()},
        BadFile{"many_tensors", Writer().Head(kHuge, 0).bytes()},
        BadFile{"many_keys", Writer().Head(0, kHuge).bytes()},
        BadFile{"key_length", Writer().Head(0, 1).Num(kHuge).bytes()},
        BadFile{"value_type", Key("k", static_cast<GgufType>(13)).Num(uint64_t{0}).bytes()},
        BadFile{"string_length", Key("k", GgufType::kString).Num(~uint64_t{0}).bytes()},
        BadFile{"array_count",
                Key("k", GgufType::kArray).Num(uint32_t{10}).Num(kHuge).Num(1.0).bytes()},
        BadFile{"array_bytes",
                Key("k", GgufType::kArray).Num(uint32_t{10}).Num(uint64_t{2}).Num(1.0).bytes()},
        BadFile{"array_type",
                Key("k", GgufType::kArray).Num(uint32_t{77}).Num(uint64_t{1}).Num(1.0).bytes()},
        BadFile{"array_depth",
                [] {
                  Writer out = Key("k", GgufType::kArray);
                  for (int i = 0; i < 50; ++i) out.Num(uint32_t{9}).Num(uint64_t{1});
                  return out.bytes();
                }()},
        BadFile{"key_twice", Writer()
                                 .Head(0, 2)
                                 .Str("k")
                                 .Num(uint32_t{7})
                                 .Num('\1')
                                 .Str("k")
                                 .Num(uint32_t{7})
                                 .Num('\1')
                                 .bytes()},
        BadFile{"alignment_zero", Aligned(0).bytes()},
        BadFile{"alignment_odd", Aligned(48).bytes()},
        BadFile{"alignment_type", Key("general.alignment", GgufType::kString).Str("32").bytes()},
        BadFile{"no_dims", One({}, 0, 0, 32)}, BadFile{"five_dims", One({1, 1, 1, 1, 1}, 0, 0, 32)},
        BadFile{"zero_dim", One({8, 0}, 0, 0, 32)},
        BadFile{"overflow", One({kHuge, kHuge}, 0, 0, 32)},
        BadFile{"too_large", One({9}, 0, 0, 32)}, BadFile{"lying_offset", One({8}, 0, 32, 32)},
        BadFile{"wrapping_offset", One({8}, 0, ~uint64_t{31}, 32)},
        BadFile{"unaligned_offset", One({4}, 0, 4, 32)},
        BadFile{"block_multiple", One({33}, kGgmlQ8_0, 0, 64)},
        BadFile{"unknown_type", One({8}, 4, 0, 32), "UNSUPPORTED_TENSOR_TYPE"},
        BadFile{
            "tensor_twice",
            Writer().Head(2, 0).Tensor("a", {8}, 0, 0).Tensor("a", {8}, 0, 32).Data(64).bytes()},
        BadFile{
            "overlap",
            Writer().Head(2, 0).Tensor("a", {16}, 0, 0).Tensor("b", {8}, 0, 32).Data(64).bytes()}),
    [](const auto& info) { return std::string(info.param.what); });

void CheckInside(const GgufFile& file, std::span<const uint8_t> bytes) {
  for (const GgufTensor& tensor : file.tensors()) {
    EXPECT_GE(tensor.bytes.data(), bytes.data());
    EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), bytes.data() + bytes.size());
    EXPECT_EQ(tensor.bytes.size(), tensor.elements() / tensor.ne[0] * tensor.row_bytes());
  }
}

TEST(Gguf, TruncationAtEveryByteIsAnError) {
  const std::string whole = ReadOrDie(DataPath("weights/gguf-quants.gguf"));
  for (size_t n = 0; n < whole.size(); n += n < 4096 ? 1 : 509) {
    EXPECT_EQ(ReasonOfParse(whole.substr(0, n)), "GGUF_INVALID") << n;
  }
}

TEST(Gguf, ACutFileSaysHowMuchIsMissing) {
  const std::string whole = ReadOrDie(DataPath("weights/gguf-quants.gguf"));
  const ExactBytes cut(whole.substr(0, whole.size() - 1));
  const std::string message = MessageOf(GgufFile::Parse(cut.span(), "x.gguf").status());
  // The last tensor ends with the file.
  EXPECT_NE(message.find("need " + std::to_string(whole.size()) + " bytes, there are " +
                         std::to_string(whole.size() - 1) + "; fetch it again"),
            std::string::npos)
      << message;
}

TEST(Gguf, BitFlipsNeverReachOutside) {
  const std::string whole = ReadOrDie(DataPath("weights/gguf-quants.gguf"));
  const ExactBytes intact(whole);
  const auto parsed = GgufFile::Parse(intact.span(), "x");
  ASSERT_TRUE(parsed.ok());
  const size_t header = (*parsed)->tensors()[0].bytes.data() - intact.span().data();
  ASSERT_GT(header, 1000u);
  for (size_t bit = 0; bit < header * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const ExactBytes exact(damaged);
    const auto file = GgufFile::Parse(exact.span(), "x");
    if (file.ok())
      CheckInside(**file, exact.span());
    else
      EXPECT_NE(ReasonOf(file.status()), "UNKNOWN");
  }
}

}  // namespace
}  // namespace assay
