// A real model against the fixture's digests: every linear of the reference and of the candidates.

#include <gtest/gtest.h>

#include <cstdlib>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/format/model_manifest.h"
#include "worker/capture/weights/checkpoint.h"
#include "worker/capture/weights/head_extract.h"

namespace assay {
namespace {

std::string EnvOr(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::string(value);
}

std::string DataPath(const std::string& name) {
  return JoinPath(EnvOr("ASSAY_SOURCE_DIR", "."), "tests/data/smollm2/" + name);
}

const std::vector<std::string>& Linears() {
  static const auto& list = *new std::vector<std::string>{
      "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
      "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  return list;
}

std::span<const uint8_t> BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}

// The whole tensor, read in ranges of `step` rows.
std::vector<float> ReadAll(const Checkpoint& model, const std::string& name, uint64_t step) {
  const auto shape = model.Shape(name);
  EXPECT_TRUE(shape.ok()) << name;
  const uint64_t rows = (*shape)[0], cols = shape->size() > 1 ? (*shape)[1] : 1;
  std::vector<float> out(rows * cols);
  for (uint64_t row = 0; row < rows; row += step) {
    const auto status = model.ReadRows(name, row, std::min(rows, row + step), &out[row * cols]);
    EXPECT_TRUE(status.ok()) << status;
  }
  return out;
}

// A model of candidates.json: the fixture's name, the file's variable, a transform, and a path
// below the variable's folder.
struct Case {
  const char* name;
  const char* file_variable;
  const char* transform;
  const char* below = "";
};

class SmolLM2Digests : public testing::TestWithParam<Case> {};

TEST_P(SmolLM2Digests, EveryLinearAndTheCombinedDigest) {
  const std::string base = EnvOr(GetParam().file_variable, "");
  if (base.empty()) {
    GTEST_SKIP() << "set " << GetParam().file_variable
                 << " to the model file (or the folder of make_candidates.py) to run this test";
  }
  const std::string path = GetParam().below[0] == 0 ? base : JoinPath(base, GetParam().below);
  const auto json = ReadJsonFile(DataPath("candidates.json"));
  ASSERT_TRUE(json.ok()) << json.status();
  const Json& expected = (*json)["models"][GetParam().name];
  const auto model = Checkpoint::Open(path, GetParam().transform);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->config().layers, 30);
  Sha256 combined;
  for (int layer = 0; layer < 30; ++layer) {
    for (const std::string& linear : Linears()) {
      const std::string name = "model.layers." + std::to_string(layer) + "." + linear + ".weight";
      const std::vector<float> values = ReadAll(**model, name, 1 << 20);
      Sha256 digest;
      digest.Update(BytesOf(values));
      combined.Update(BytesOf(values));
      EXPECT_EQ(digest.FinishHex(), expected["tensors"][name].get<std::string>()) << name;
    }
  }
  EXPECT_EQ(combined.FinishHex(), expected["linears_sha256"].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(
    Models, SmolLM2Digests,
    testing::Values(Case{"reference", "ASSAY_SMOLLM2_GGUF", ""},
                    Case{"int8-channel", "ASSAY_SMOLLM2_GGUF", "rtn:bits=8,group=channel"},
                    Case{"int4-g32", "ASSAY_SMOLLM2_GGUF", "rtn:bits=4,group=32"},
                    Case{"q4_0", "ASSAY_SMOLLM2_Q4_0_GGUF", ""},
                    Case{"int8-channel", "ASSAY_SMOLLM2_CANDIDATES", "", "int8-channel"},
                    Case{"int4-g32", "ASSAY_SMOLLM2_CANDIDATES", "", "int4-g32"},
                    Case{"q4_0", "ASSAY_SMOLLM2_CANDIDATES", "", "q4_0/model.gguf"}),
    [](const auto& info) {
      std::string name = std::string(info.param.name) + (info.param.below[0] == 0 ? "" : "_file");
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

class SmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    path_ = EnvOr("ASSAY_SMOLLM2_GGUF", "");
    if (path_.empty()) GTEST_SKIP() << "set ASSAY_SMOLLM2_GGUF to the model file to run this test";
  }
  std::string path_;
};

TEST_F(SmolLM2, ConfigurationFormatsAndSizes) {
  const auto model = Checkpoint::Open(path_, "");
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelConfig& config = (*model)->config();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.vocab, 49152);
  EXPECT_EQ(config.hidden, 576);
  EXPECT_EQ(config.heads, 9);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.ffn, 1536);
  EXPECT_EQ(config.rope_theta, 100000.0);
  EXPECT_EQ(config.rms_eps, 1e-5f);
  EXPECT_TRUE(config.tied);
  EXPECT_FALSE((*model)->Has("lm_head.weight"));
  EXPECT_EQ((*model)->StorageFormat("model.embed_tokens.weight"), "Q8_0");
  EXPECT_EQ((*model)->StorageFormat("model.layers.29.mlp.down_proj.weight"), "Q4_1");
  EXPECT_EQ((*model)->StorageFormat("model.norm.weight"), "F32");

  // 106,168,320 weights in the 210 linears (fixture README), 61 norms of 576.
  const ModelFacts facts = (*model)->facts();
  EXPECT_EQ(facts.file_bytes, 98362432u);
  EXPECT_EQ(facts.body.params, 106168320u + 61u * 576u);
  EXPECT_EQ(facts.body.bits, 106168320u / 32 * 160 + 61u * 576u * 32);
  EXPECT_EQ(facts.embedding.params, 49152u * 576u);
  EXPECT_EQ(facts.embedding.bits, 49152u * 576u / 32 * 272);
  EXPECT_EQ(facts.head.bits, facts.embedding.bits);
  EXPECT_FALSE(facts.what_if);
}

TEST_F(SmolLM2, TransformIsNominalInFactsAndTouchesLinearsOnly) {
  const auto plain = Checkpoint::Open(path_, "");
  const auto int4 = Checkpoint::Open(path_, "rtn:group=32,bits=4");
  ASSERT_TRUE(plain.ok() && int4.ok()) << int4.status();
  const ModelFacts facts = (*int4)->facts();
  EXPECT_TRUE(facts.what_if);
  EXPECT_EQ(facts.transform, "rtn:bits=4,group=32");
  EXPECT_EQ(facts.body.bits, 106168320u / 32 * (32 * 4 + 32) + 61u * 576u * 32);
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight",
                           "model.layers.3.input_layernorm.weight"}) {
    EXPECT_EQ(ReadAll(**plain, name, 4096), ReadAll(**int4, name, 4096)) << name;
  }
}

// What the files that make_candidates.py writes take for each weight, scales included: the same as
// the transforms that describe them.
TEST(SmolLM2Candidates, SizesCountScales) {
  const std::string base = EnvOr("ASSAY_SMOLLM2_CANDIDATES", "");
  if (base.empty()) GTEST_SKIP() << "set ASSAY_SMOLLM2_CANDIDATES to the folder of the candidates";
  const auto int8 = Checkpoint::Open(JoinPath(base, "int8-channel"), "");
  const auto int4 = Checkpoint::Open(JoinPath(base, "int4-g32"), "");
  ASSERT_TRUE(int8.ok()) << int8.status();
  ASSERT_TRUE(int4.ok()) << int4.status();
  const uint64_t norms = 61u * 576u * 32;
  EXPECT_EQ((*int4)->facts().body.bits, 106168320u / 32 * (32 * 4 + 32) + norms);
  // 30 layers of q, k, v, o, gate, up and down: one scale for each output.
  const uint64_t outputs = 30u * (576 + 192 + 192 + 576 + 1536 + 1536 + 576);
  EXPECT_EQ((*int8)->facts().body.bits, uint64_t{106168320} * 8 + outputs * 32 + norms);
  EXPECT_EQ((*int4)->StorageFormat("model.layers.0.mlp.down_proj.weight"),
            "pack-quantized int4, groups of 32");
  EXPECT_EQ((*int8)->StorageFormat("model.layers.0.mlp.down_proj.weight"), "int-quantized int8");
}

TEST_F(SmolLM2, RowRangesGiveTheSameBits) {
  for (const char* transform : {"", "rtn:bits=4,group=32", "rtn:bits=8,group=channel"}) {
    const auto model = Checkpoint::Open(path_, transform);
    ASSERT_TRUE(model.ok()) << model.status();
    for (const char* name :
         {"model.layers.7.self_attn.q_proj.weight", "model.layers.7.self_attn.k_proj.weight",
          "model.layers.7.mlp.down_proj.weight"}) {
      const std::vector<float> whole = ReadAll(**model, name, 1 << 20);
      for (uint64_t step : {1, 7, 96}) {
        EXPECT_EQ(ReadAll(**model, name, step), whole) << name << " by " << step;
      }
    }
  }
}

TEST_F(SmolLM2, HeadIsTheFixturesHead) {
  const auto json = ReadJsonFile(DataPath("candidates.json"));
  ASSERT_TRUE(json.ok()) << json.status();
  const auto model = Checkpoint::Open(path_, "rtn:bits=4,group=32");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string out = JoinPath(testing::TempDir(), "assay-head-test.safetensors");
  const auto head = ExtractHead(**model, out);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->vocab, 49152u);
  EXPECT_EQ(head->hidden, 576u);
  EXPECT_EQ(head->content_sha256, (*json)["models"]["reference"]["head_bf16_sha256"]);
  const auto inspected = InspectHead(out, "");
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->tensor, "lm_head.weight");
  EXPECT_EQ(inspected->content_sha256, head->content_sha256);
  EXPECT_EQ(inspected->file_sha256, head->file_sha256);
  EXPECT_TRUE(RemoveTree(out).ok());
}

TEST_F(SmolLM2, ManifestStatesThePublishedDigest) {
  const auto manifest = MakeModelManifest(path_, "", nullptr);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->files.size(), 1u);
  EXPECT_EQ(manifest->files[0].path, BaseName(path_));
  EXPECT_EQ(manifest->files[0].size, 98362432u);
  EXPECT_EQ(manifest->files[0].sha256,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

}  // namespace
}  // namespace assay
