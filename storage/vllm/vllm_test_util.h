// Files in vLLM's layout for this folder's tests, made of the golden states of
// tests/data/arch/llama (another program's forward pass).

#ifndef ASSAY_STORAGE_VLLM_VLLM_TEST_UTIL_H_
#define ASSAY_STORAGE_VLLM_VLLM_TEST_UTIL_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "storage/format/format_test_util.h"
#include "storage/format/safetensors.h"

namespace assay {

inline constexpr uint64_t kTestLength = 33, kTestWidth = 64;  // of tests/data/vllm/suite
inline constexpr uint64_t kTestLayers = 3;                    // of tests/data/arch/llama
inline std::string LlamaFolder() { return DataPath("arch/llama"); }

template <typename T>
std::vector<T> ValuesOf(const TensorView& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

template <typename T>
std::span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

class VllmTest : public TempDirTest {
 protected:
  void SetUp() override {
    TempDirTest::SetUp();
    auto file = SafetensorsFile::Open(LlamaFolder() + "/golden.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    golden_ = *file;
  }

  TensorView Golden(const std::string& name) const { return golden_->Find(name).value(); }

  // Token ids of "seq1" or "seq2".
  std::vector<int64_t> Ids(const std::string& sequence, size_t count = kTestLength) const {
    const TensorView tensor = Golden(sequence + ".input_ids");
    std::vector<int64_t> ids;
    if (tensor.dtype == DType::kI64) {
      ids = ValuesOf<int64_t>(tensor);
    } else {
      for (const int32_t id : ValuesOf<int32_t>(tensor)) ids.push_back(id);
    }
    ids.resize(count);
    return ids;
  }

  // The residual stream after `layer` layers, [count, 64].
  std::vector<float> Residual(const std::string& sequence, uint64_t layer,
                              size_t count = kTestLength) const {
    const TensorView tensor = Golden(sequence + ".residual");  // [layers + 1, tokens, 64]
    const std::vector<float> all = ValuesOf<float>(tensor);
    const auto begin = all.begin() + static_cast<ptrdiff_t>(layer * tensor.shape[1] * kTestWidth);
    return {begin, begin + static_cast<ptrdiff_t>(count * kTestWidth)};
  }

  // Writes DIR/extracted/NAME.safetensors with float32 states of `shape`.
  std::string Write(const std::string& name, const std::vector<float>& states,
                    const std::vector<uint64_t>& shape, const std::vector<int64_t>& ids) {
    SafetensorsBuilder builder;
    builder.Add("hidden_states", DType::kF32, shape, BytesOf(states));
    builder.Add("token_ids", DType::kI64, {ids.size()}, BytesOf(ids));
    return Put("extracted/" + name + ".safetensors", builder.Build());
  }

  // The last layer of a sequence, as vLLM writes it.
  std::string WriteLast(const std::string& name, const std::string& sequence,
                        size_t count = kTestLength) {
    return Write(name, Residual(sequence, kTestLayers, count), {count, 1, kTestWidth},
                 Ids(sequence, count));
  }

  std::shared_ptr<const SafetensorsFile> golden_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_VLLM_VLLM_TEST_UTIL_H_
