// Checkpoints whose tensors carry other prefixes: the same rows under the same names.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <map>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/safetensors.h"
#include "worker/capture/weights/checkpoint.h"
#include "worker/capture/weights/hf_names.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

std::map<std::string, std::vector<float>> Everything(const Checkpoint& model) {
  std::map<std::string, std::vector<float>> out;
  for (const std::string& name : model.Names()) {
    const auto shape = *model.Shape(name);
    std::vector<float>& values = out[name];
    values.resize(shape[0] * (shape.size() > 1 ? shape[1] : 1));
    EXPECT_TRUE(model.ReadRows(name, 0, shape[0], values.data()).ok()) << name;
  }
  return out;
}

class ModelNamesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-names-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  // `model` with every tensor under another name, beside tensors of other towers.
  void Put(const std::string& model, const Json& config,
           const std::function<std::string(const std::string&)>& rename,
           const std::vector<std::string>& others) {
    const auto source = SafetensorsFile::Open(DataPath("arch/" + model + "/model.safetensors"));
    ASSERT_TRUE(source.ok()) << source.status();
    const std::vector<uint8_t> extra(8);
    SafetensorsBuilder builder;
    for (const TensorView& tensor : (*source)->tensors())
      builder.Add(rename(tensor.name), tensor.dtype, tensor.shape, tensor.bytes);
    for (const std::string& name : others) builder.Add(name, DType::kBF16, {4}, extra);
    ASSERT_TRUE(WriteFile(JoinPath(dir_, "config.json"), config.dump()).ok());
    ASSERT_TRUE(WriteFile(JoinPath(dir_, "model.safetensors"), builder.Build()).ok());
  }

  std::string dir_;
};

std::string WithPrefix(const std::string& body, const std::string& name) {
  const std::string model = "model.";
  return name.rfind(model, 0) == 0 ? body + name.substr(model.size()) : name;
}

TEST_F(ModelNamesTest, BodiesAreFoundUnderTheirPrefix) {
  const auto plain = Checkpoint::Open(DataPath("arch/llama"), "");
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto expected = Everything(**plain);
  const Json flat = *ReadJsonFile(DataPath("arch/llama/config.json"));
  Json nested = {{"architectures", {"AVisionForConditionalGeneration"}},
                 {"model_type", "a_vision"},
                 {"text_config", flat}};
  nested["text_config"].erase("architectures");
  const std::vector<std::string> towers = {"model.visual.blocks.0.norm1.weight",
                                           "mtp.layers.0.norm.weight", "visual.merger.weight"};
  struct Layout {
    std::string body, head;
    const Json* config;
    std::vector<std::string> others;
  };
  const Layout layouts[] = {{"model.language_model.", "lm_head.weight", &nested, towers},
                            {"model.language_model.", "lm_head.weight", &flat, towers},
                            {"language_model.model.",
                             "language_model.lm_head.weight",
                             &nested,
                             {"vision_tower.norm.weight"}},
                            {"model.text_model.", "lm_head.weight", &nested, {"model.connector.w"}},
                            {"", "lm_head.weight", &flat, {}}};
  for (const Layout& layout : layouts) {
    Put(
        "llama", *layout.config,
        [&](const std::string& name) {
          return name == "lm_head.weight" ? layout.head : WithPrefix(layout.body, name);
        },
        layout.others);
    const auto model = Checkpoint::Open(dir_, "");
    ASSERT_TRUE(model.ok()) << layout.body << ": " << model.status();
    EXPECT_EQ(Everything(**model), expected) << layout.body;
  }
}

TEST_F(ModelNamesTest, TiedAndShardedModelsToo) {
  const Json config = *ReadJsonFile(DataPath("arch/qwen3-yarn-tied/config.json"));
  Put("qwen3-yarn-tied", config,
      [](const std::string& name) { return WithPrefix("model.language_model.", name); }, {});
  const auto plain = Checkpoint::Open(DataPath("arch/qwen3-yarn-tied"), "");
  const auto model = Checkpoint::Open(dir_, "");
  ASSERT_TRUE(plain.ok() && model.ok()) << model.status();
  EXPECT_EQ(Everything(**model), Everything(**plain));
  EXPECT_TRUE((*model)->config().tied);
}

// What lies inside the body and is not planned is refused, prefix or not; so is a second body.
TEST_F(ModelNamesTest, WhatIsInsideTheBodyMustBeKnown) {
  const Json config = *ReadJsonFile(DataPath("arch/llama/config.json"));
  const auto rename = [](const std::string& name) {
    return WithPrefix("model.language_model.", name);
  };
  Put("llama", config, rename, {"model.language_model.layers.0.self_attn.q_norm.weight"});
  const absl::Status status = Checkpoint::Open(dir_, "").status();
  EXPECT_EQ(ReasonOf(status), "UNSUPPORTED_MODEL_FEATURE");
  EXPECT_NE(MessageOf(status).find("model.language_model.layers.0.self_attn.q_norm.weight"),
            std::string::npos)
      << status;
  Put("llama", config, rename, {"model.embed_tokens.weight"});
  EXPECT_EQ(ReasonOf(Checkpoint::Open(dir_, "").status()), "MODEL_UNRECOGNISED");
  Put("llama", config, [](const std::string& name) { return "transformer." + name; }, {});
  EXPECT_EQ(ReasonOf(Checkpoint::Open(dir_, "").status()), "TENSOR_MISSING");
}

// llama.cpp leaves the rows of these families as they are, and all biases and norms F32.
TEST_F(ModelNamesTest, GgufOfQwenReadsLikeTheFolder) {
  for (const char* name : {"qwen2-sharded", "qwen3-yarn-tied"}) {
    const auto gguf =
        Checkpoint::Open(DataPath("arch/gguf/" + std::string(name) + ".bf16.gguf"), "");
    const auto folder = Checkpoint::Open(DataPath("arch/" + std::string(name)), "");
    ASSERT_TRUE(gguf.ok()) << gguf.status();
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(Everything(**gguf), Everything(**folder)) << name;
  }
}

}  // namespace
}  // namespace assay
