#include "worker/capture/capture_test_util.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "storage/base/files.h"
#include "storage/format/safetensors.h"
#include "worker/capture/native_engine.h"
#include "worker/collective/collective.h"

namespace assay::capture {
namespace {

struct Folders {
  std::vector<std::string> paths;
  ~Folders() {
    for (const std::string& path : paths) RemoveTree(path).IgnoreError();
  }
};

template <typename To, typename From = To>
std::vector<To> Tensor(const std::string& path, std::string_view name, DType dtype) {
  auto file = SafetensorsFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  auto view = (*file)->Find(name);
  EXPECT_TRUE(view.ok()) << view.status();
  if (!view.ok()) return {};
  EXPECT_EQ(view->dtype, dtype) << path << " " << name;
  std::vector<From> values(view->elements());
  if (view->bytes.size() != values.size() * sizeof(From)) return {};
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return {values.begin(), values.end()};
}

}  // namespace

std::string Fixture(std::string_view path) {
  const char* source = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(JoinPath(source == nullptr ? "." : source, "tests/data"), path);
}

std::string TempFolder() {
  static Folders folders;
  std::string path = JoinPath(testing::TempDir(), "assay_capture_XXXXXX");
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  folders.paths.push_back(path);
  return path;
}

std::string SmolLm2Path() {
  const char* path = std::getenv("ASSAY_SMOLLM2_GGUF");
  return path == nullptr ? "" : path;
}

absl::StatusOr<GroupResult> CaptureWith(const CaptureRequest& request, int size,
                                        size_t batch_tokens) {
  std::vector<std::unique_ptr<Collective>> collectives = CreateThreadCollectives(size, 600'000);
  std::vector<absl::StatusOr<std::vector<CaptureOutput>>> results(size);
  GroupResult group;
  group.counters.resize(size);
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.emplace_back([&, r] {
      NativeEngine engine(batch_tokens);
      results[r] = engine.Capture(request, *collectives[r], {}, &group.counters[r]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& result : results) {
    if (!result.ok()) return result.status();
  }
  group.outputs = *results[0];
  return group;
}

std::string FileBytes(const std::string& path) {
  auto bytes = ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : std::string();
}

std::vector<float> F32Tensor(const std::string& path, std::string_view name) {
  return Tensor<float>(path, name, DType::kF32);
}
std::vector<double> F64Tensor(const std::string& path, std::string_view name) {
  return Tensor<double>(path, name, DType::kF64);
}
std::vector<uint16_t> Bf16Tensor(const std::string& path, std::string_view name) {
  return Tensor<uint16_t>(path, name, DType::kBF16);
}
std::vector<int32_t> TokenTensor(const std::string& path, std::string_view name) {
  return Tensor<int32_t, int64_t>(path, name, DType::kI64);
}

}  // namespace assay::capture
