// safetensors: u64 little-endian header length, JSON header, payload.
//
// Reading maps the file and checks the whole header before any tensor is handed out: names unique,
// dtype known, shape product times element size equal to the stated byte range, and the ranges
// tiling the payload exactly (no overlap, no hole, nothing after the last one). Errors:
// SAFETENSORS_INVALID (names the file, the tensor and what is wrong), FILE_MISSING and the like.

#ifndef ASSAY_STORAGE_FORMAT_SAFETENSORS_H_
#define ASSAY_STORAGE_FORMAT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/files.h"

namespace assay {

enum class DType {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,
  kF8E5M2
};

std::string_view DTypeName(DType dtype);  // as in the file: "BF16", "F8_E4M3", ...
uint64_t DTypeBytes(DType dtype);         // bytes of one element

// One tensor of an open file. `bytes` points into the mapping and lives as long as the file object.
struct TensorView {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<uint64_t> shape;     // row major; empty for a scalar
  std::span<const uint8_t> bytes;  // elements() * DTypeBytes(dtype) bytes, little-endian
  uint64_t elements() const;       // cannot overflow: checked when the file was opened
};

// Limits of what is read; beyond them SAFETENSORS_INVALID.
inline constexpr uint64_t kSafetensorsHeaderMax = uint64_t{100} << 20;  // as the format states
inline constexpr size_t kSafetensorsRankMax = 8;

class SafetensorsFile {
 public:
  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Open(const std::string& path);

  // Parses bytes that the caller keeps alive and unchanged; `path` only names them in errors.
  static absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Parse(
      std::span<const uint8_t> bytes, const std::string& path);

  const std::vector<TensorView>& tensors() const { return tensors_; }  // in header order
  bool Has(std::string_view name) const;
  absl::StatusOr<TensorView> Find(std::string_view name) const;  // TENSOR_MISSING
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

 private:
  SafetensorsFile() = default;
  std::string path_;
  std::shared_ptr<const MappedFile> mapping_;  // null after Parse
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// What a header says of one tensor; the payload follows in the same order.
struct SafetensorsEntry {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  uint64_t bytes() const;  // the shape's size; the caller's shapes are sound
};

// The first bytes of a file (length and padded header), for writers that stream the payload.
std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries);

// Builds a file in memory: tensors in the order added, no metadata, header padded with spaces to a
// multiple of 8 (the layout of published hidden files, qwen-suites 2.1).
class SafetensorsBuilder {
 public:
  // `bytes` are copied. Their count must be the shape's; a mistake here is a bug and aborts.
  void Add(std::string name, DType dtype, std::vector<uint64_t> shape,
           std::span<const uint8_t> bytes);
  std::string Build() const;

 private:
  std::vector<SafetensorsEntry> entries_;
  std::string payload_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_SAFETENSORS_H_
