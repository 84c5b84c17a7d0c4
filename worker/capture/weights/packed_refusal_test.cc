// Hostile, damaged and contradicting packed weights: refused by name, never decoded.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "storage/base/files.h"
#include "worker/capture/weights/weight_cases_test_util.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

const std::string kModule = kCaseModule;

class PackedRefusal : public testing::Test {
 protected:
  // A fixture case, to be spoiled and opened.
  WeightCase Case(const std::string& stem, const std::string& name) {
    const auto file = SafetensorsFile::Open(DataPath("weights/" + stem + ".safetensors"));
    EXPECT_TRUE(file.ok()) << file.status();
    files_.push_back(*file);
    const Json cases = Json::parse((*file)->metadata().at("cases"));
    auto c = ReadWeightCase(**file, name, cases.at(name));
    EXPECT_TRUE(c.ok()) << c.status();
    return *std::move(c);
  }
  std::string Reason(const WeightCase& c) {
    const auto opened = OpenCase(c);
    message_ = opened.ok() ? "" : MessageOf(opened.status());
    return opened.ok() ? "OK" : ReasonOf(opened.status());
  }
  TensorView& Part(WeightCase& c, const std::string& part) {
    return c.tensors.at(kModule + "." + part);
  }
  // A copy of a part's bytes that may be changed.
  std::vector<uint8_t>& Bytes(TensorView& view) {
    copies_.push_back(std::make_unique<std::vector<uint8_t>>(view.bytes.begin(), view.bytes.end()));
    view.bytes = *copies_.back();
    return *copies_.back();
  }
  // The one tensor of one value replaced by another shape.
  void Reshape(TensorView& view, std::vector<uint64_t> shape) {
    std::vector<uint8_t>& bytes = Bytes(view);
    view.shape = std::move(shape);
    bytes.resize(view.elements() * DTypeBytes(view.dtype));
    view.bytes = bytes;
  }
  bool Says(const std::string& text) const { return message_.find(text) != std::string::npos; }

  std::string message_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> copies_;
};

TEST_F(PackedRefusal, WrongShapesNameTheTensorAndBothShapes) {
  struct Spoiled {
    const char *stem, *name, *part;
    std::vector<uint64_t> shape;
  };
  const Spoiled spoiled[] = {
      {"ct-int4", "group128-symmetric-bf16", "weight_packed", {24, 47}},
      {"ct-int4", "group128-symmetric-bf16", "weight_packed", {23, 48}},
      {"ct-int4", "group128-symmetric-bf16", "weight_scale", {24, 2}},
      {"ct-int4", "group128-symmetric-bf16", "weight_scale", {3, 24}},
      {"ct-int4", "group32-asymmetric-bf16", "weight_zero_point", {2, 3}},
      {"ct-int4", "group32-actorder-g_idx", "weight_g_idx", {127}},
      {"ct-int-quantized", "channel", "weight_scale", {72, 1}},
      {"ct-int-quantized", "channel-asymmetric", "weight_zero_point", {24, 2}},
      {"ct-float-quantized", "block", "weight_scale", {1, 2}},
      {"ct-float-quantized", "tensor", "weight_scale", {2}},
      {"fp8-block", "bf16-scales", "weight_scale_inv", {2, 1}},
      {"gptq", "v1-asymmetric", "qweight", {11, 32}},
      {"gptq", "v1-asymmetric", "qzeros", {3, 3}},
      {"gptq", "v1-asymmetric", "scales", {32, 3}},
      {"gptq", "v1-asymmetric", "g_idx", {95}},
      {"awq", "group32", "qweight", {96, 5}},
      {"awq", "group32", "qzeros", {2, 6}},
      {"awq", "group32", "scales", {3, 47}},
      {"nvfp4", "compressed-tensors", "weight_packed", {16, 127}},
      {"nvfp4", "compressed-tensors", "weight_scale", {16, 15}},
      {"nvfp4", "compressed-tensors", "weight_global_scale", {2}},
      {"mxfp4", "compressed-tensors", "weight_scale", {16, 7}},
      {"mxfp4", "gpt-oss", "weight_blocks", {2, 10, 3, 15}},
      {"mxfp4", "gpt-oss", "weight_scales", {2, 10, 2}},
      {"mxfp8", "compressed-tensors", "weight_scale", {14, 2}},
  };
  for (const Spoiled& s : spoiled) {
    WeightCase c = Case(s.stem, s.name);
    Reshape(Part(c, s.part), s.shape);
    EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID") << s.stem << " " << s.name << " " << s.part;
    std::string shape = "[";
    for (size_t i = 0; i < s.shape.size(); ++i)
      shape += (i > 0 ? ", " : "") + std::to_string(s.shape[i]);
    EXPECT_TRUE(Says(shape + "]")) << message_;
  }
}

TEST_F(PackedRefusal, MissingPartsAreNamed) {
  const std::tuple<const char*, const char*, const char*> missing[] = {
      {"ct-int4", "group32-asymmetric-bf16", "weight_zero_point"},
      {"ct-int4", "group32-asymmetric-bf16", "weight_scale"},
      {"ct-int-quantized", "channel-asymmetric", "weight_zero_point"},
      {"fp8-block", "bf16-scales", "weight_scale_inv"},
      {"gptq", "v1-asymmetric", "qzeros"},
      {"gptq", "v1-act-order", "g_idx"},
      {"awq", "group32", "qzeros"},
      {"nvfp4", "compressed-tensors", "weight_global_scale"},
      {"mxfp4", "gpt-oss", "weight_scales"}};
  for (const auto& [stem, name, part] : missing) {
    WeightCase c = Case(stem, name);
    c.tensors.erase(kModule + "." + part);
    EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID") << stem << " " << name << " " << part;
    EXPECT_TRUE(Says(kModule)) << message_;
  }
  WeightCase c = Case("awq", "group32");
  c.tensors.clear();
  EXPECT_EQ(Reason(c), "TENSOR_MISSING");
}

TEST_F(PackedRefusal, GroupSizesMustDivide) {
  WeightCase ct = Case("ct-int4", "group128-symmetric-bf16");
  for (int64_t group : {100, 257, 385}) {
    ct.config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] = group;
    EXPECT_EQ(Reason(ct), "QUANTIZATION_INVALID") << group;
    EXPECT_TRUE(Says("groups of " + std::to_string(group))) << message_;
  }
  for (const auto& [stem, name] : {std::pair("gptq", "v1-asymmetric"), {"awq", "group32"}}) {
    WeightCase c = Case(stem, name);
    for (int64_t group : {int64_t{40}, int64_t{0}, int64_t{-2}, int64_t{1} << 40, INT64_MIN}) {
      c.config["quantization_config"]["group_size"] = group;
      EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID") << stem << " " << group;
      EXPECT_TRUE(Says("group")) << message_;
    }
  }
}

TEST_F(PackedRefusal, BitsOutOfRange) {
  WeightCase ct = Case("ct-int4", "group128-symmetric-bf16");
  for (int64_t bits : {int64_t{0}, int64_t{1}, int64_t{9}, int64_t{64}, int64_t{-4}, INT64_MAX}) {
    ct.config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = bits;
    EXPECT_EQ(Reason(ct), "QUANTIZATION_INVALID") << bits;
    EXPECT_TRUE(Says("num_bits")) << message_;
  }
  // In range, but of other tensors.
  ct.config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 5;
  EXPECT_EQ(Reason(ct), "QUANTIZATION_INVALID");
  WeightCase gptq = Case("gptq", "v1-asymmetric");
  gptq.config["quantization_config"]["bits"] = 5;
  EXPECT_EQ(Reason(gptq), "QUANTIZATION_INVALID");
  EXPECT_TRUE(Says("2, 3, 4, 8 are decoded")) << message_;
  gptq.config["quantization_config"]["bits"] = 3;  // its tensors have 4
  EXPECT_EQ(Reason(gptq), "QUANTIZATION_INVALID");
}

TEST_F(PackedRefusal, GroupIndexOutOfRange) {
  for (const auto& [stem, name, part, groups] :
       {std::tuple("gptq", "v1-act-order", "g_idx", 4),
        {"ct-int4", "group32-actorder-g_idx", "weight_g_idx", 4}}) {
    for (int32_t index : {groups, -2, -1, INT32_MAX, INT32_MIN}) {
      WeightCase c = Case(stem, name);
      std::vector<uint8_t>& bytes = Bytes(Part(c, part));
      std::memcpy(bytes.data() + 4 * 5, &index, 4);
      EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID") << stem << " " << index;
      EXPECT_TRUE(Says("input 5") && Says(std::to_string(index))) << message_;
    }
  }
}

// An index that was never filled in: columns go by position.
TEST_F(PackedRefusal, AnUnsetGroupIndexIsNone) {
  WeightCase c = Case("ct-int4", "group32-actorder-g_idx");
  std::vector<uint8_t>& bytes = Bytes(Part(c, "weight_g_idx"));
  std::fill(bytes.begin(), bytes.end(), 0xff);
  const auto unset = OpenCase(c);
  ASSERT_TRUE(unset.ok()) << unset.status();
  c.tensors.erase(kModule + ".weight_g_idx");
  const auto absent = OpenCase(c);
  ASSERT_TRUE(absent.ok()) << absent.status();
  EXPECT_EQ(DecodeCase(c, *unset->tensor, 16), DecodeCase(c, *absent->tensor, 16));
}

TEST_F(PackedRefusal, GptqZerosThatCannotBeKnown) {
  WeightCase c = Case("gptq", "v1-asymmetric");
  Bytes(Part(c, "qzeros"))[7] |= 0xf0;  // a stored 15
  EXPECT_EQ(Reason(c), "GPTQ_ZERO_AMBIGUOUS");
  EXPECT_TRUE(Says("qzeros") && Says("15") && Says("gptq_v2")) << message_;
  c.config["quantization_config"]["checkpoint_format"] = "gptq_v2";
  EXPECT_EQ(Reason(c), "OK") << message_;
  // "sym" is what decides, so it cannot be missing, nor contradict what is stored.
  c.config["quantization_config"]["sym"] = true;
  EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID");
  EXPECT_TRUE(Says("sym")) << message_;
  c.config["quantization_config"].erase("sym");
  EXPECT_EQ(Reason(c), "FIELD_MISSING");
}

TEST_F(PackedRefusal, TensorsAndConfigurationMustAgree) {
  WeightCase c = Case("ct-int4", "group128-symmetric-bf16");
  Json& quantization = c.config["quantization_config"];
  quantization["ignore"] = {kModule};
  EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID");
  EXPECT_TRUE(Says("ignores")) << message_;
  quantization["ignore"] = Json::array();
  quantization["format"] = "int-quantized";
  EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID");
  EXPECT_TRUE(Says("int-quantized")) << message_;
  c.config.erase("quantization_config");
  EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID");
  EXPECT_TRUE(Says("no quantization_config")) << message_;

  c = Case("ct-int4", "group128-symmetric-bf16");
  std::vector<uint8_t>& shape = Bytes(Part(c, "weight_shape"));
  shape[0] ^= 1;
  EXPECT_EQ(Reason(c), "QUANTIZATION_INVALID");
  EXPECT_TRUE(Says("weight_shape") && Says("[24, 384]")) << message_;
}

TEST_F(PackedRefusal, KnownFormatsThatAreNotDecodedAreNamed) {
  WeightCase c = Case("ct-int-quantized", "channel");
  Part(c, "weight").dtype = DType::kU8;
  for (const auto& [method, name] : {std::pair("bitsandbytes", "bitsandbytes"),
                                     {"hqq", "HQQ"},
                                     {"torchao", "torchao"},
                                     {"aqlm", "AQLM"},
                                     {"exl3", "EXL3"},
                                     {"brand-new", "brand-new"}}) {
    c.config = {{"quantization_config", {{"quant_method", method}}}};
    EXPECT_EQ(Reason(c), "UNSUPPORTED_TENSOR_TYPE") << method;
    EXPECT_TRUE(Says(name) && Says(kModule + ".weight") && Says("capture")) << message_;
  }
  c.config = {{"quantization", {{"group_size", 64}, {"bits", 4}}}};
  EXPECT_EQ(Reason(c), "UNSUPPORTED_TENSOR_TYPE");
  EXPECT_TRUE(Says("MLX")) << message_;

  for (const auto& [part, name] :
       {std::pair("q_weight", "EXL2"), {"trellis", "EXL3"}, {"W_q", "HQQ"}, {"codes", "AQLM"}}) {
    WeightCase foreign = Case("ct-int-quantized", "channel");
    TensorView view = Part(foreign, "weight");
    view.name = kModule + "." + part;
    foreign.tensors = {{view.name, view}};
    EXPECT_EQ(Reason(foreign), "UNSUPPORTED_TENSOR_TYPE") << part;
    EXPECT_TRUE(Says(name) && Says(view.name)) << message_;
  }

  WeightCase awq = Case("awq", "group32");
  awq.config["quantization_config"]["version"] = "gemv";
  EXPECT_EQ(Reason(awq), "UNSUPPORTED_TENSOR_TYPE");
  EXPECT_TRUE(Says("gemv")) << message_;
  WeightCase marlin = Case("gptq", "v1-symmetric");
  marlin.config["quantization_config"]["is_marlin_format"] = true;
  EXPECT_EQ(Reason(marlin), "UNSUPPORTED_TENSOR_TYPE");
  EXPECT_TRUE(Says("marlin")) << message_;
}

}  // namespace
}  // namespace assay
