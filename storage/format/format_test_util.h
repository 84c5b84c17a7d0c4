// Helpers of this folder's tests.

#ifndef ASSAY_STORAGE_FORMAT_FORMAT_TEST_UTIL_H_
#define ASSAY_STORAGE_FORMAT_FORMAT_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/base/files.h"

namespace assay {

// A path in the source tree; ctest sets the variable.
inline std::string SourcePath(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, name);
}
inline std::string DataPath(const std::string& name) { return SourcePath("tests/data/" + name); }

inline std::string ReadOrDie(const std::string& path) {
  auto bytes = ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : std::string();
}

// Bytes in a heap block of exactly their size, so that a sanitizer sees any read beyond the end.
class ExactBytes {
 public:
  explicit ExactBytes(std::string_view text)
      : data_(new uint8_t[text.size() + (text.empty() ? 1 : 0)]), size_(text.size()) {
    std::copy(text.begin(), text.end(), data_.get());
  }
  std::span<const uint8_t> span() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_;
};

class TempDirTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-format-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  std::string Put(const std::string& name, std::string_view bytes) {
    const std::string path = JoinPath(dir_, name);
    EXPECT_TRUE(EnsureDirectory(DirName(path)).ok());
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  // Copies a folder of regular files, one level of folders deep.
  void CopyTree(const std::string& from, const std::string& to) {
    const auto names = ListDirectory(from);
    ASSERT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      const std::string source = JoinPath(from, name);
      if (IsDirectory(source)) {
        CopyTree(source, JoinPath(to, name));
      } else {
        Put(JoinPath(to, name), ReadOrDie(source));
      }
    }
  }

  std::string dir_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_FORMAT_TEST_UTIL_H_
