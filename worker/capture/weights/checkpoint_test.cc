#include "worker/capture/weights/checkpoint.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/safetensors.h"
#include "worker/capture/weights/head_extract.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

std::vector<float> ReadAll(const Checkpoint& model, const std::string& name) {
  const auto shape = model.Shape(name);
  EXPECT_TRUE(shape.ok()) << shape.status();
  std::vector<float> out((*shape)[0] * (shape->size() > 1 ? (*shape)[1] : 1));
  EXPECT_TRUE(model.ReadRows(name, 0, (*shape)[0], out.data()).ok()) << name;
  return out;
}

// bf16 values of a tensor read without the code under test.
std::vector<float> Plain(const SafetensorsFile& file, const std::string& name) {
  const auto tensor = file.Find(name);
  EXPECT_TRUE(tensor.ok() && tensor->dtype == DType::kBF16) << name;
  std::vector<float> out(tensor->elements());
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor->bytes.data() + 2 * i, 2);
    out[i] = Bf16ToFloat(bits);
  }
  return out;
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-weights-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    config_ = *ReadJsonFile(DataPath("arch/llama/config.json"));
    const auto file = SafetensorsFile::Open(DataPath("arch/llama/model.safetensors"));
    ASSERT_TRUE(file.ok());
    source_ = *file;
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  void Put(const std::string& name, std::string_view bytes) {
    ASSERT_TRUE(EnsureDirectory(DirName(JoinPath(dir_, name))).ok());
    ASSERT_TRUE(WriteFile(JoinPath(dir_, name), bytes).ok());
  }
  std::string ReasonOfOpen(std::string_view transform = "") {
    const auto model = Checkpoint::Open(JoinPath(dir_, "m"), transform);
    message_ = model.ok() ? "" : MessageOf(model.status());
    return model.ok() ? "OK" : ReasonOf(model.status());
  }
  // The llama fixture rewritten tensor by tensor; `edit` may change one or return false to drop it.
  void PutModel(const std::function<bool(TensorView&)>& edit) {
    SafetensorsBuilder builder;
    for (TensorView tensor : source_->tensors()) {
      if (edit(tensor)) builder.Add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
    }
    Put("m/config.json", config_.dump());
    Put("m/model.safetensors", builder.Build());
  }

  std::string dir_, message_;
  Json config_;
  std::shared_ptr<const SafetensorsFile> source_;
};

TEST_F(CheckpointTest, HuggingFaceFolder) {
  const auto model = Checkpoint::Open(DataPath("arch/llama"), "");
  ASSERT_TRUE(model.ok()) << model.status();
  for (const TensorView& tensor : source_->tensors()) {
    EXPECT_EQ(*(*model)->Shape(tensor.name), tensor.shape);
    EXPECT_EQ(ReadAll(**model, tensor.name), Plain(*source_, tensor.name)) << tensor.name;
    EXPECT_EQ((*model)->StorageFormat(tensor.name), "BF16");
  }
  EXPECT_EQ((*model)->Names().size(), source_->tensors().size());
  EXPECT_EQ(ReasonOf((*model)->ReadRows("nope", 0, 1, nullptr)), "TENSOR_MISSING");
  EXPECT_EQ(ReasonOf((*model)->ReadRows("model.norm.weight", 60, 65, nullptr)),
            "ROW_RANGE_INVALID");
  EXPECT_EQ(ReasonOf((*model)->ReadRows("model.norm.weight", 3, 2, nullptr)), "ROW_RANGE_INVALID");
  const ModelFacts facts = (*model)->facts();
  EXPECT_EQ(facts.head.bits_per_weight(), 16.0);
  EXPECT_EQ(facts.head.params, 320u * 64);
  EXPECT_EQ(facts.body.bits, facts.body.params * 16);
  EXPECT_FALSE(facts.tied);
}

// llama.cpp's converter permuted q and k rows, biases too; the folder holds the original order.
TEST_F(CheckpointTest, GgufRowsComeInHuggingFaceOrder) {
  const auto gguf = Checkpoint::Open(DataPath("arch/gguf/llama3-rope-tied.bf16.gguf"), "");
  const auto folder = Checkpoint::Open(DataPath("arch/llama3-rope-tied"), "");
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*gguf)->Names(), (*folder)->Names());
  for (const std::string& name : (*folder)->Names()) {
    EXPECT_EQ(*(*gguf)->Shape(name), *(*folder)->Shape(name)) << name;
    EXPECT_EQ(ReadAll(**gguf, name), ReadAll(**folder, name)) << name;
  }
  EXPECT_EQ((*gguf)->StorageFormat("model.norm.weight"), "F32");
}

TEST_F(CheckpointTest, ShardsAndLinksReadLikeOneFile) {
  SafetensorsBuilder shards[2];
  Json map = Json::object();
  int turn = 0;
  for (const TensorView& tensor : source_->tensors()) {
    turn ^= 1;
    shards[turn].Add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
    map[tensor.name] = turn == 0 ? "model-1.safetensors" : "model-2.safetensors";
  }
  Put("blobs/a", shards[0].Build());
  Put("blobs/b", shards[1].Build());
  Put("m/config.json", config_.dump());
  Put("m/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_EQ(ReasonOfOpen(), "FILE_MISSING");
  ASSERT_EQ(symlink("../blobs/a", JoinPath(dir_, "m/model-1.safetensors").c_str()), 0);
  ASSERT_EQ(symlink("../blobs/b", JoinPath(dir_, "m/model-2.safetensors").c_str()), 0);
  const auto model = Checkpoint::Open(JoinPath(dir_, "m"), "");
  ASSERT_TRUE(model.ok()) << model.status();
  for (const TensorView& tensor : source_->tensors())
    EXPECT_EQ(ReadAll(**model, tensor.name), Plain(*source_, tensor.name));

  // An index that sends a tensor to the wrong shard.
  map["model.norm.weight"] = map["model.norm.weight"] == "model-1.safetensors"
                                 ? "model-2.safetensors"
                                 : "model-1.safetensors";
  Put("m/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_EQ(ReasonOfOpen(), "TENSOR_MISSING");
}

TEST_F(CheckpointTest, OtherStorageTypesDecode) {
  std::vector<uint8_t> f32;
  const TensorView norm = *source_->Find("model.norm.weight");
  const std::vector<float> values = Plain(*source_, "model.norm.weight");
  f32.resize(values.size() * 4);
  std::memcpy(f32.data(), values.data(), f32.size());
  PutModel([&](TensorView& tensor) {
    if (tensor.name == norm.name) tensor.dtype = DType::kF32, tensor.bytes = f32;
    return true;
  });
  const auto model = Checkpoint::Open(JoinPath(dir_, "m"), "");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(ReadAll(**model, norm.name), values);
  EXPECT_EQ((*model)->StorageFormat(norm.name), "F32");
}

TEST_F(CheckpointTest, DamagedModelsAreRefusedByName) {
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  PutModel([&](TensorView& tensor) { return tensor.name != q; });
  EXPECT_EQ(ReasonOfOpen(), "TENSOR_MISSING");
  EXPECT_NE(message_.find(q), std::string::npos);
  PutModel([&](TensorView& tensor) {
    if (tensor.name == q) std::swap(tensor.shape[0], tensor.shape[1]), tensor.shape = {32, 128};
    return true;
  });
  EXPECT_EQ(ReasonOfOpen(), "SHAPE_MISMATCH");
  EXPECT_NE(message_.find("[32, 128]"), std::string::npos) << message_;
  PutModel([&](TensorView& tensor) {
    if (tensor.name == q) tensor.dtype = DType::kI16;
    return true;
  });
  EXPECT_EQ(ReasonOfOpen(), "UNSUPPORTED_TENSOR_TYPE");
  EXPECT_NE(message_.find(q), std::string::npos);
  EXPECT_NE(message_.find("I16"), std::string::npos);
  PutModel([&](TensorView& tensor) {
    if (tensor.name == "model.norm.weight") tensor.name = "model.layers.0.self_attn.q_norm.weight";
    return true;
  });
  EXPECT_EQ(ReasonOfOpen(), "TENSOR_MISSING");
}

// A tensor that the forward pass would ignore is no detail.
TEST_F(CheckpointTest, UnknownTensorsAreRefusedOldBuffersIgnored) {
  const std::vector<uint8_t> extra(8);
  for (const auto& [name, reason] :
       {std::pair("model.layers.0.self_attn.rotary_emb.inv_freq", "OK"),
        {"model.layers.0.self_attn.q_norm.weight", "UNSUPPORTED_MODEL_FEATURE"},
        {"model.layers.0.self_attn.q_proj.bias", "UNSUPPORTED_MODEL_FEATURE"}}) {
    SafetensorsBuilder builder;
    for (const TensorView& tensor : source_->tensors())
      builder.Add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
    builder.Add(name, DType::kBF16, {4}, extra);
    Put("m/config.json", config_.dump());
    Put("m/model.safetensors", builder.Build());
    EXPECT_EQ(ReasonOfOpen(), reason) << name;
  }
}

TEST_F(CheckpointTest, TiedModelsUseTheEmbedding) {
  config_["tie_word_embeddings"] = true;
  PutModel([](TensorView&) { return true; });  // an lm_head.weight that is there is not used
  const auto model = Checkpoint::Open(JoinPath(dir_, "m"), "");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->Has("lm_head.weight"));
  const auto head = ExtractHead(**model, JoinPath(dir_, "head.safetensors"));
  ASSERT_TRUE(head.ok()) << head.status();
  Sha256 digest;
  digest.Update(source_->Find("model.embed_tokens.weight")->bytes);
  EXPECT_EQ(head->content_sha256, digest.FinishHex());

  const auto untied = Checkpoint::Open(DataPath("arch/llama"), "");
  ASSERT_TRUE(untied.ok());
  const auto own = ExtractHead(**untied, JoinPath(dir_, "own.safetensors"));
  ASSERT_TRUE(own.ok()) << own.status();
  Sha256 own_digest;
  own_digest.Update(source_->Find("lm_head.weight")->bytes);
  EXPECT_EQ(own->content_sha256, own_digest.FinishHex());
}

TEST_F(CheckpointTest, TransformsMustFit) {
  PutModel([](TensorView&) { return true; });
  EXPECT_EQ(ReasonOfOpen("rtn:bits=4,group=32"), "OK");
  EXPECT_EQ(ReasonOfOpen("rtn:bits=4,group=48"), "TRANSFORM_INVALID");
  EXPECT_EQ(ReasonOfOpen("zip:1"), "TRANSFORM_INVALID");
}

TEST_F(CheckpointTest, ThreadsReadTheSameRows) {
  const auto model = Checkpoint::Open(DataPath("arch/gguf/llama3-rope-tied.bf16.gguf"),
                                      "rtn:bits=8,group=channel");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string name = "model.layers.2.self_attn.q_proj.weight";
  const std::vector<float> expected = ReadAll(**model, name);
  std::vector<std::vector<float>> got(4);
  std::vector<std::thread> threads;
  for (auto& out : got)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) out = ReadAll(**model, name);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& out : got) EXPECT_EQ(out, expected);
}

// The type field follows name, rank (u32) and two sizes (u64); 24 is I8, known but not decoded.
TEST_F(CheckpointTest, GgufRefusalsComeByName) {
  const std::string whole = *ReadFile(DataPath("arch/gguf/llama3-rope-tied.bf16.gguf"), 1 << 24);
  const std::string tensor = "blk.1.attn_v.weight";
  std::string other = whole;
  other[other.find(tensor) + tensor.size() + 4 + 16] = 24;
  Put("m", other);
  EXPECT_EQ(ReasonOfOpen(), "UNSUPPORTED_TENSOR_TYPE");
  EXPECT_NE(message_.find(tensor), std::string::npos) << message_;
  EXPECT_NE(message_.find("I8"), std::string::npos) << message_;

  other = whole;
  other.replace(other.find("llama"), 5, "mamba");
  Put("m", other);
  EXPECT_EQ(ReasonOfOpen(), "UNKNOWN_ARCHITECTURE");
  EXPECT_NE(message_.find("mamba"), std::string::npos);
  EXPECT_NE(message_.find("LlamaForCausalLM"), std::string::npos);

  other = whole;
  other.replace(other.find(tensor), tensor.size(), "blk.1.attn_w.weight");
  Put("m", other);
  EXPECT_EQ(ReasonOfOpen(), "TENSOR_MISSING");
  EXPECT_NE(message_.find(tensor), std::string::npos);
}

// Every prefix of a small GGUF model and every flipped bit of its header: an error or a model whose
// rows can all be read.
TEST_F(CheckpointTest, DamagedGgufNeverCrashes) {
  const std::string whole = *ReadFile(DataPath("arch/gguf/llama3-rope-tied.bf16.gguf"), 1 << 24);
  const size_t header = 4096;
  for (size_t n = 0; n < whole.size(); n += n < header ? 37 : 40009) {
    Put("m", std::string_view(whole).substr(0, n));
    EXPECT_NE(ReasonOfOpen(), "OK") << n;
    EXPECT_NE(message_, "");
  }
  for (size_t bit = 0; bit < header * 8; bit += 53) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    Put("m", damaged);
    const auto model = Checkpoint::Open(JoinPath(dir_, "m"), "");
    if (!model.ok()) {
      EXPECT_NE(ReasonOf(model.status()), "UNKNOWN");
      continue;
    }
    for (const std::string& name : (*model)->Names()) ReadAll(**model, name);
  }
}

}  // namespace
}  // namespace assay
