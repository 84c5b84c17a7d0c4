// GGUF containers, versions 2 and 3 (specs: arch-qwen-llama 9.1), little-endian.
//
// Opening maps the file and checks everything that is later relied on: counts, string and array
// lengths against the file, alignment, tensor shapes and block multiples with checked arithmetic,
// offsets aligned, inside the file and not overlapping, names unique. Reason GGUF_INVALID; the
// message names the file, the key or tensor, and the byte position.

#ifndef ASSAY_STORAGE_FORMAT_GGUF_H_
#define ASSAY_STORAGE_FORMAT_GGUF_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/files.h"

namespace assay {

// Limits; beyond them GGUF_INVALID.
inline constexpr uint64_t kGgufTensorsMax = 1 << 20;
inline constexpr uint64_t kGgufKeysMax = 1 << 20;
inline constexpr uint64_t kGgufNameBytesMax = 64 << 10;
inline constexpr uint32_t kGgufDimsMax = 4;
inline constexpr uint64_t kGgufArrayDepthMax = 4;
inline constexpr uint64_t kGgufAlignmentMax = 1 << 20;

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12
};

// One metadata value. Integers of any width are int64_t, or uint64_t when the stored type is
// unsigned; floats are double (an F32 is widened exactly). Arrays of fixed-size numbers and of
// strings stay as raw bytes (`array_bytes`, little-endian; for strings see GgufStrings), arrays of
// arrays are skipped over and only counted.
struct GgufValue {
  GgufType type = GgufType::kU8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view> scalar;  // not for kArray
  GgufType element_type = GgufType::kU8;                                   // kArray only
  uint64_t count = 0;                                                      // kArray only
  std::span<const uint8_t> array_bytes;  // kArray of numbers, bools or strings only
};

// The elements of an array of strings, which lie in the file; empty for any other value.
std::vector<std::string_view> GgufStrings(const GgufValue& value);

// ggml's tensor types that Assay can name; any other number is refused at opening, since its size
// is unknown.
struct GgmlTypeInfo {
  uint32_t type;
  std::string_view name;  // "Q4_1"
  uint64_t block;         // values per block along ne[0]
  uint64_t bytes;         // bytes per block
};
const GgmlTypeInfo* FindGgmlType(uint32_t type);  // null when unknown

inline constexpr uint32_t kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ4_0 = 2, kGgmlQ4_1 = 3, kGgmlQ5_0 = 6,
                          kGgmlQ5_1 = 7, kGgmlQ8_0 = 8, kGgmlQ2_K = 10, kGgmlQ3_K = 11,
                          kGgmlQ4_K = 12, kGgmlQ5_K = 13, kGgmlQ6_K = 14, kGgmlIQ4_NL = 20,
                          kGgmlIQ4_XS = 23, kGgmlBF16 = 30, kGgmlMXFP4 = 39, kGgmlNVFP4 = 40;

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> ne;  // ne[0] = inputs (row length): the reverse of a PyTorch shape
  uint32_t type = 0;         // ggml type number; FindGgmlType(type) is not null
  std::span<const uint8_t> bytes;
  uint64_t elements() const;
  uint64_t row_bytes() const;  // bytes of ne[0] values
};

class GgufFile {
 public:
  static absl::StatusOr<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  // Parses bytes that the caller keeps alive; `path` only names them in errors.
  static absl::StatusOr<std::shared_ptr<const GgufFile>> Parse(std::span<const uint8_t> bytes,
                                                               const std::string& path);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  const std::map<std::string, GgufValue, std::less<>>& kv() const { return kv_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order
  const GgufTensor* Find(std::string_view name) const;                 // null when absent
  const std::string& path() const { return path_; }

  bool Has(std::string_view key) const { return kv_.find(key) != kv_.end(); }
  // Typed access: FIELD_MISSING, or FIELD_INVALID for another type or range.
  absl::StatusOr<int64_t> Int(std::string_view key, int64_t min, int64_t max) const;
  absl::StatusOr<double> Number(std::string_view key) const;  // finite; integers are widened
  absl::StatusOr<std::string> String(std::string_view key) const;

 private:
  friend class GgufParser;
  GgufFile() = default;
  std::string path_;
  std::shared_ptr<const MappedFile> mapping_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::map<std::string, GgufValue, std::less<>> kv_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_GGUF_H_
