#include "storage/format/gguf.h"

#include <cmath>
#include <cstring>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/gguf_parser.h"

namespace assay {
namespace {

// Sizes from ggml's block definitions (arch-qwen-llama 9.2, 9.3); NVFP4 has 64 values in 36 bytes.
constexpr GgmlTypeInfo kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
};

absl::Status FieldError(std::string_view reason, const std::string& path, std::string_view key,
                        const std::string& why) {
  return InvalidError(reason, path + ": metadata key \"" + std::string(key) + "\" " + why);
}

}  // namespace

std::vector<std::string_view> GgufStrings(const GgufValue& value) {
  std::vector<std::string_view> out;
  if (value.type != GgufType::kArray || value.element_type != GgufType::kString) return out;
  out.reserve(value.count);
  const uint8_t* at = value.array_bytes.data();
  for (uint64_t i = 0; i < value.count; ++i) {  // lengths were checked when the file was opened
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof length);
    out.emplace_back(reinterpret_cast<const char*>(at + sizeof length), length);
    at += sizeof length + length;
  }
  return out;
}

const GgmlTypeInfo* FindGgmlType(uint32_t type) {
  for (const GgmlTypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

uint64_t GgufTensor::elements() const {
  uint64_t count = 1;
  for (uint64_t dim : ne) count *= dim;
  return count;
}

uint64_t GgufTensor::row_bytes() const {
  const GgmlTypeInfo* info = FindGgmlType(type);
  return (ne.empty() ? 1 : ne[0]) / info->block * info->bytes;
}

absl::StatusOr<std::shared_ptr<const GgufFile>> GgufFile::Open(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapping, MappedFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(std::shared_ptr<const GgufFile> parsed, Parse(mapping->bytes(), path));
  auto file = std::shared_ptr<GgufFile>(new GgufFile(*parsed));
  file->mapping_ = std::move(mapping);
  return file;
}

absl::StatusOr<std::shared_ptr<const GgufFile>> GgufFile::Parse(std::span<const uint8_t> bytes,
                                                                const std::string& path) {
  auto file = std::shared_ptr<GgufFile>(new GgufFile());
  file->path_ = path;
  GgufParser parser(bytes, *file);
  ASSAY_RETURN_IF_ERROR(parser.Run());
  return file;
}

const GgufTensor* GgufFile::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

absl::StatusOr<int64_t> GgufFile::Int(std::string_view key, int64_t min, int64_t max) const {
  const auto it = kv_.find(key);
  if (it == kv_.end()) return FieldError("FIELD_MISSING", path_, key, "is missing");
  const auto& scalar = it->second.scalar;
  const bool is_array = it->second.type == GgufType::kArray;
  int64_t value = 0;
  bool fits = false;
  if (const auto* u = std::get_if<uint64_t>(&scalar); u != nullptr && !is_array) {
    fits = *u <= static_cast<uint64_t>(INT64_MAX);
    value = fits ? static_cast<int64_t>(*u) : 0;
  } else if (const auto* i = std::get_if<int64_t>(&scalar); i != nullptr) {
    fits = true;
    value = *i;
  }
  if (!fits || value < min || value > max) {
    return FieldError(
        "FIELD_INVALID", path_, key,
        "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

absl::StatusOr<double> GgufFile::Number(std::string_view key) const {
  const auto it = kv_.find(key);
  if (it == kv_.end()) return FieldError("FIELD_MISSING", path_, key, "is missing");
  const auto& value = it->second;
  double out = std::nan("");
  if (value.type != GgufType::kArray) {
    if (const auto* d = std::get_if<double>(&value.scalar)) out = *d;
    if (const auto* u = std::get_if<uint64_t>(&value.scalar)) out = static_cast<double>(*u);
    if (const auto* i = std::get_if<int64_t>(&value.scalar)) out = static_cast<double>(*i);
  }
  if (!std::isfinite(out))
    return FieldError("FIELD_INVALID", path_, key, "must be a finite number");
  return out;
}

absl::StatusOr<std::string> GgufFile::String(std::string_view key) const {
  const auto it = kv_.find(key);
  if (it == kv_.end()) return FieldError("FIELD_MISSING", path_, key, "is missing");
  const auto* text = std::get_if<std::string_view>(&it->second.scalar);
  if (text == nullptr) return FieldError("FIELD_INVALID", path_, key, "must be a string");
  return std::string(*text);
}

}  // namespace assay
