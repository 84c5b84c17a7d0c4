#include "storage/format/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "storage/base/checked.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little, "payloads are read in place");

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  uint64_t bytes;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kBool, "BOOL", 1}, {DType::kU8, "U8", 1},          {DType::kI8, "I8", 1},
    {DType::kI16, "I16", 2},   {DType::kU16, "U16", 2},        {DType::kI32, "I32", 4},
    {DType::kU32, "U32", 4},   {DType::kI64, "I64", 8},        {DType::kU64, "U64", 8},
    {DType::kF16, "F16", 2},   {DType::kBF16, "BF16", 2},      {DType::kF32, "F32", 4},
    {DType::kF64, "F64", 8},   {DType::kF8E4M3, "F8_E4M3", 1}, {DType::kF8E5M2, "F8_E5M2", 1},
};

const DTypeInfo& InfoOf(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return info;
  }
  std::abort();  // an enumerator without a row above
}

absl::Status Bad(const std::string& path, const std::string& why) {
  return InvalidError(
      "SAFETENSORS_INVALID",
      path + ": " + why + "; the file is damaged or no safetensors file, fetch or make it again");
}

std::optional<uint64_t> AsUnsigned(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer() && value.get<int64_t>() >= 0)
    return static_cast<uint64_t>(value.get<int64_t>());
  return std::nullopt;
}

struct Placed {
  TensorView view;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status ReadShape(const Json& value, const std::string& path, TensorView& view) {
  if (!value.is_array() || value.size() > kSafetensorsRankMax) {
    return Bad(path, "tensor \"" + view.name + "\": shape is no list of at most " +
                         std::to_string(kSafetensorsRankMax) + " sizes");
  }
  for (const Json& size : value) {
    const auto dim = AsUnsigned(size);
    if (!dim) return Bad(path, "tensor \"" + view.name + "\": a size in its shape is invalid");
    view.shape.push_back(*dim);
  }
  return absl::OkStatus();
}

// One header entry; `payload` is the number of bytes after the header.
absl::StatusOr<Placed> ReadEntry(const std::string& name, const Json& entry, uint64_t payload,
                                 const std::string& path) {
  Placed out;
  out.view.name = name;
  const std::string subject = "tensor \"" + name + "\"";
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return Bad(path, subject + ": its header entry must have dtype, shape and data_offsets only");
  }
  const Json& dtype = entry["dtype"];
  const DTypeInfo* info = nullptr;
  for (const DTypeInfo& known : kDTypes) {
    if (dtype.is_string() && dtype.get_ref<const std::string&>() == known.name) info = &known;
  }
  if (info == nullptr) {
    const std::string shown =
        dtype.is_string() ? dtype.get<std::string>() : std::string("not a string");
    return Bad(path, subject + ": dtype " + shown + " is unknown");
  }
  out.view.dtype = info->dtype;
  ASSAY_RETURN_IF_ERROR(ReadShape(entry["shape"], path, out.view));

  const Json& offsets = entry["data_offsets"];
  const auto begin = offsets.is_array() && offsets.size() == 2 ? AsUnsigned(offsets[0])
                                                               : std::optional<uint64_t>();
  const auto end = begin ? AsUnsigned(offsets[1]) : std::nullopt;
  if (!end || *begin > *end) return Bad(path, subject + ": data_offsets are invalid");
  if (*end > payload) {
    return Bad(path, subject + ": data_offsets end at byte " + std::to_string(*end) +
                         " of a payload of " + std::to_string(payload));
  }
  std::optional<uint64_t> bytes = info->bytes;
  for (uint64_t dim : out.view.shape) bytes = bytes ? CheckedMul(*bytes, dim) : bytes;
  if (!bytes || *bytes != *end - *begin) {
    return Bad(path, subject + ": its byte range does not match its dtype and shape");
  }
  out.begin = *begin;
  out.end = *end;
  return out;
}

// Sorted by place, every byte of the payload belongs to exactly one tensor.
absl::Status CheckTiling(std::vector<const Placed*> order, uint64_t payload,
                         const std::string& path) {
  std::sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t at = 0;
  for (const Placed* tensor : order) {
    if (tensor->begin < at)
      return Bad(path, "tensor \"" + tensor->view.name + "\" overlaps another");
    if (tensor->begin > at) {
      return Bad(path, "bytes " + std::to_string(at) + " to " + std::to_string(tensor->begin) +
                           " of the payload belong to no tensor");
    }
    at = tensor->end;
  }
  if (at != payload) {
    return Bad(path, "the tensors take " + std::to_string(at) + " of " + std::to_string(payload) +
                         " payload bytes");
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(const Json& entry, const std::string& path,
                          std::map<std::string, std::string>& out) {
  if (!entry.is_object()) return Bad(path, "__metadata__ is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return Bad(path, "__metadata__ holds a value that is no string");
    out[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view DTypeName(DType dtype) { return InfoOf(dtype).name; }
uint64_t DTypeBytes(DType dtype) { return InfoOf(dtype).bytes; }

uint64_t TensorView::elements() const {
  uint64_t count = 1;
  for (uint64_t dim : shape) count *= dim;
  return count;
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapping, MappedFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(std::shared_ptr<const SafetensorsFile> parsed,
                         Parse(mapping->bytes(), path));
  auto file = std::shared_ptr<SafetensorsFile>(new SafetensorsFile(*parsed));
  file->mapping_ = std::move(mapping);
  return file;
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Parse(
    std::span<const uint8_t> bytes, const std::string& path) {
  if (bytes.size() < 8)
    return Bad(path, "only " + std::to_string(bytes.size()) + " bytes, no header");
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kSafetensorsHeaderMax || header_bytes > bytes.size() - 8) {
    return Bad(path, "states a header of " + std::to_string(header_bytes) + " bytes in a file of " +
                         std::to_string(bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  const absl::StatusOr<Json> header = ParseJson(text, path + ": header");
  if (!header.ok()) return Bad(path, "header: " + MessageOf(header.status()));
  if (!header->is_object()) return Bad(path, "header is no JSON object");

  auto file = std::shared_ptr<SafetensorsFile>(new SafetensorsFile());
  file->path_ = path;
  const std::span<const uint8_t> payload = bytes.subspan(8 + header_bytes);
  std::vector<Placed> placed;
  placed.reserve(header->size());
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") {
      ASSAY_RETURN_IF_ERROR(ReadMetadata(entry, path, file->metadata_));
      continue;
    }
    ASSAY_ASSIGN_OR_RETURN(Placed tensor, ReadEntry(name, entry, payload.size(), path));
    tensor.view.bytes = payload.subspan(tensor.begin, tensor.end - tensor.begin);
    placed.push_back(std::move(tensor));
  }
  std::vector<const Placed*> order;
  for (const Placed& tensor : placed) order.push_back(&tensor);
  ASSAY_RETURN_IF_ERROR(CheckTiling(std::move(order), payload.size(), path));
  for (Placed& tensor : placed) {
    file->index_.emplace(tensor.view.name, file->tensors_.size());  // unique: ParseJson checks
    file->tensors_.push_back(std::move(tensor.view));
  }
  return file;
}

bool SafetensorsFile::Has(std::string_view name) const { return index_.find(name) != index_.end(); }

absl::StatusOr<TensorView> SafetensorsFile::Find(std::string_view name) const {
  const auto it = index_.find(name);
  if (it == index_.end()) {
    return NotFoundError("TENSOR_MISSING",
                         path_ + ": there is no tensor \"" + std::string(name) + "\"");
  }
  return tensors_[it->second];
}

uint64_t SafetensorsEntry::bytes() const {
  uint64_t count = DTypeBytes(dtype);
  for (uint64_t dim : shape) count *= dim;
  return count;
}

std::string SafetensorsHeader(const std::vector<SafetensorsEntry>& entries) {
  Json header = Json::object();
  // Appended without a search for an equal name: there may be very many, all different.
  auto& members = header.get_ref<Json::object_t&>();
  members.reserve(entries.size());
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    Json& out = members.emplace_back(entry.name, Json()).second;
    out["dtype"] = std::string(DTypeName(entry.dtype));
    out["shape"] = entry.shape;
    out["data_offsets"] = {at, at + entry.bytes()};
    at += entry.bytes();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &size, 8);
  return out + text;
}

void SafetensorsBuilder::Add(std::string name, DType dtype, std::vector<uint64_t> shape,
                             std::span<const uint8_t> bytes) {
  entries_.push_back({std::move(name), dtype, std::move(shape)});
  if (entries_.back().bytes() != bytes.size()) std::abort();
  payload_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string SafetensorsBuilder::Build() const { return SafetensorsHeader(entries_) + payload_; }

}  // namespace assay
