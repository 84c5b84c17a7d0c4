// A GGUF model whose every matrix has another quantized type, read as a checkpoint: formats, row
// order, ranges of rows and the scale beside a tensor, against gguf-py's values
// (tests/data/weights/make_llama_quants.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "worker/capture/weights/checkpoint.h"

namespace assay {
namespace {

std::string DataPath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

std::string DigestOf(const Checkpoint& model, const std::string& name, uint64_t step) {
  const std::vector<uint64_t> shape = *model.Shape(name);
  std::vector<float> values(shape[0] * shape[1]);
  for (uint64_t row = 0; row < shape[0]; row += step) {
    const uint64_t end = std::min(shape[0], row + step);
    EXPECT_TRUE(model.ReadRows(name, row, end, &values[row * shape[1]]).ok());
  }
  return Sha256Hex({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

TEST(GgufCheckpoint, EveryTypeComesInHuggingFaceOrder) {
  const auto model = Checkpoint::Open(DataPath("weights/llama-quants.gguf"), "");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto expected = ReadJsonFile(DataPath("weights/llama-quants.json"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(expected->size(), 9u);
  for (const auto& [name, about] : expected->items()) {
    EXPECT_EQ((*model)->StorageFormat(name), about["type"].get<std::string>());
    for (uint64_t step : {1, 5, 1000})
      EXPECT_EQ(DigestOf(**model, name, step), about["sha256"].get<std::string>())
          << name << " in steps of " << step;
  }
  // 4.5 bits, and the scale's own 32.
  EXPECT_EQ((*model)->StorageBytes("model.layers.0.self_attn.v_proj.weight"),
            32u * 256 / 64 * 36 + 4);
}

TEST(GgufCheckpoint, AScaleThatIsNoSingleValueIsRefused) {
  std::string bytes = *ReadFile(DataPath("weights/llama-quants.gguf"), 1 << 24);
  // Name, rank (u32), one size (u64), then the type; 1 is F16.
  const std::string tensor = "blk.0.attn_v.scale";
  bytes[bytes.find(tensor) + tensor.size() + 4 + 8] = 1;
  const std::string path = JoinPath(testing::TempDir(), "assay-scale-test.gguf");
  ASSERT_TRUE(WriteFile(path, bytes).ok());
  const auto model = Checkpoint::Open(path, "");
  EXPECT_EQ(ReasonOf(model.status()), "QUANTIZATION_INVALID");
  EXPECT_NE(MessageOf(model.status()).find(tensor), std::string::npos);
  EXPECT_TRUE(RemoveTree(path).ok());
}

// 19 is IQ1_S: known, not decoded.
TEST(GgufCheckpoint, KnownTypesThatAreNotDecodedAreNamed) {
  std::string bytes = *ReadFile(DataPath("weights/llama-quants.gguf"), 1 << 24);
  const std::string tensor = "blk.0.ffn_down.weight";
  for (const auto& [type, name] : {std::pair(19, "IQ1_S"), {17, "IQ2_XS"}, {35, "TQ2_0"}}) {
    bytes[bytes.find(tensor) + tensor.size() + 4 + 16] = static_cast<char>(type);
    const std::string path = JoinPath(testing::TempDir(), "assay-iq-test.gguf");
    ASSERT_TRUE(WriteFile(path, bytes).ok());
    const auto model = Checkpoint::Open(path, "");
    EXPECT_EQ(ReasonOf(model.status()), "UNSUPPORTED_TENSOR_TYPE");
    const std::string message(MessageOf(model.status()));
    EXPECT_NE(message.find(tensor), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find("capture"), std::string::npos) << message;
    EXPECT_TRUE(RemoveTree(path).ok());
  }
}

}  // namespace
}  // namespace assay
