#include "storage/format/gguf_parser.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "storage/base/checked.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// Bytes of one scalar; 0 for strings and arrays, which have no fixed size, and unknown types.
uint64_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

// No file is larger; sums of a few such numbers fit into 64 bits.
constexpr uint64_t kPlausibleBytes = uint64_t{1} << 50;

// A name as it may appear in a message: untrusted bytes made printable and short.
std::string Shown(std::string_view name) {
  std::string out;
  for (char c : name.substr(0, 80)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  return "\"" + out + "\"";
}

}  // namespace

absl::Status GgufParser::Bad(const std::string& why) const {
  return InvalidError("GGUF_INVALID", file_.path_ + ": at byte " + std::to_string(at_) + ": " +
                                          why + "; fetch or make the file again");
}

template <typename T>
absl::StatusOr<T> GgufParser::Read(const std::string& what) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!RangeInside(at_, sizeof(T), bytes_.size())) {
    return Bad("the file of " + std::to_string(bytes_.size()) +
               " bytes is cut short, it ends inside " + what);
  }
  T value;
  std::memcpy(&value, bytes_.data() + at_, sizeof(T));
  at_ += sizeof(T);
  return value;
}

absl::StatusOr<std::string_view> GgufParser::ReadString(const std::string& what,
                                                        uint64_t max_bytes) {
  ASSAY_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>("the length of " + what));
  if (length > max_bytes || !RangeInside(at_, length, bytes_.size())) {
    return Bad(what + " states a length of " + std::to_string(length) +
               " bytes, beyond the file or the limit");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
  at_ += length;
  return text;
}

absl::StatusOr<GgufValue> GgufParser::ReadValue(GgufType type, const std::string& key) {
  GgufValue value;
  value.type = type;
  const auto read = [&]<typename Stored, typename Kept>(Stored, Kept) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const Stored stored, Read<Stored>("the value of " + key));
    value.scalar = static_cast<Kept>(stored);
    return absl::OkStatus();
  };
  absl::Status status;
  switch (type) {
    case GgufType::kU8:
      status = read(uint8_t{}, uint64_t{});
      break;
    case GgufType::kI8:
      status = read(int8_t{}, int64_t{});
      break;
    case GgufType::kU16:
      status = read(uint16_t{}, uint64_t{});
      break;
    case GgufType::kI16:
      status = read(int16_t{}, int64_t{});
      break;
    case GgufType::kU32:
      status = read(uint32_t{}, uint64_t{});
      break;
    case GgufType::kI32:
      status = read(int32_t{}, int64_t{});
      break;
    case GgufType::kU64:
      status = read(uint64_t{}, uint64_t{});
      break;
    case GgufType::kI64:
      status = read(int64_t{}, int64_t{});
      break;
    case GgufType::kF32:
      status = read(float{}, double{});
      break;
    case GgufType::kF64:
      status = read(double{}, double{});
      break;
    case GgufType::kBool:
      status = read(uint8_t{}, bool{});
      break;
    case GgufType::kString: {
      ASSAY_ASSIGN_OR_RETURN(value.scalar, ReadString("the value of " + key, bytes_.size()));
      break;
    }
    case GgufType::kArray:
      return ReadArray(key, 1);
    default:
      return Bad(key + " has the unknown value type " +
                 std::to_string(static_cast<uint32_t>(type)));
  }
  ASSAY_RETURN_IF_ERROR(status);
  return value;
}

absl::StatusOr<GgufValue> GgufParser::ReadArray(const std::string& key, uint64_t depth) {
  if (depth > kGgufArrayDepthMax) return Bad(key + " nests arrays too deeply");
  GgufValue value;
  value.type = GgufType::kArray;
  ASSAY_ASSIGN_OR_RETURN(const uint32_t element, Read<uint32_t>("the array type of " + key));
  ASSAY_ASSIGN_OR_RETURN(value.count, Read<uint64_t>("the array length of " + key));
  value.element_type = static_cast<GgufType>(element);
  // Every element takes at least one byte, so a count beyond the file is a lie whatever the type.
  if (value.count > bytes_.size() - at_) {
    return Bad(key + " states " + std::to_string(value.count) + " elements, beyond the file");
  }
  if (value.element_type == GgufType::kString) {
    const uint64_t begin = at_;
    for (uint64_t i = 0; i < value.count; ++i) {
      ASSAY_RETURN_IF_ERROR(ReadString("an element of " + key, bytes_.size()).status());
    }
    value.array_bytes = bytes_.subspan(begin, at_ - begin);
    return value;
  }
  if (value.element_type == GgufType::kArray) {
    for (uint64_t i = 0; i < value.count; ++i) {
      ASSAY_RETURN_IF_ERROR(ReadArray(key, depth + 1).status());
    }
    return value;
  }
  const uint64_t size = ScalarBytes(value.element_type);
  if (size == 0) return Bad(key + " is an array of the unknown type " + std::to_string(element));
  const std::optional<uint64_t> total = CheckedMul(size, value.count);
  if (!total || !RangeInside(at_, *total, bytes_.size())) {
    return Bad(key + " states " + std::to_string(value.count) + " elements, beyond the file");
  }
  value.array_bytes = bytes_.subspan(at_, *total);
  at_ += *total;
  return value;
}

absl::Status GgufParser::ReadKeyValue() {
  ASSAY_ASSIGN_OR_RETURN(const std::string_view key,
                         ReadString("a metadata key", kGgufNameBytesMax));
  const std::string subject = "metadata key " + Shown(key);
  ASSAY_ASSIGN_OR_RETURN(const uint32_t type, Read<uint32_t>("the type of " + subject));
  ASSAY_ASSIGN_OR_RETURN(GgufValue value, ReadValue(static_cast<GgufType>(type), subject));
  if (!file_.kv_.emplace(std::string(key), std::move(value)).second)
    return Bad(subject + " appears twice");
  return absl::OkStatus();
}

absl::Status GgufParser::ReadAlignment() {
  const auto it = file_.kv_.find("general.alignment");
  if (it == file_.kv_.end()) return absl::OkStatus();
  const auto* value = std::get_if<uint64_t>(&it->second.scalar);
  const bool valid = it->second.type != GgufType::kArray && value != nullptr && *value > 0 &&
                     (*value & (*value - 1)) == 0 && *value <= kGgufAlignmentMax;
  if (!valid) return Bad("general.alignment must be a power of two up to 1048576");
  file_.alignment_ = *value;
  return absl::OkStatus();
}

absl::StatusOr<GgufParser::PendingTensor> GgufParser::ReadTensorInfo() {
  GgufTensor tensor;
  ASSAY_ASSIGN_OR_RETURN(const std::string_view name,
                         ReadString("a tensor name", kGgufNameBytesMax));
  tensor.name = std::string(name);
  const std::string subject = "tensor " + Shown(name);
  ASSAY_ASSIGN_OR_RETURN(const uint32_t dims, Read<uint32_t>("the rank of " + subject));
  if (dims == 0 || dims > kGgufDimsMax)
    return Bad(subject + " states " + std::to_string(dims) + " dimensions, 1 to 4 are possible");
  for (uint32_t i = 0; i < dims; ++i) {
    ASSAY_ASSIGN_OR_RETURN(const uint64_t dim, Read<uint64_t>("the shape of " + subject));
    if (dim == 0) return Bad(subject + " has an empty dimension");
    tensor.ne.push_back(dim);
  }
  ASSAY_ASSIGN_OR_RETURN(tensor.type, Read<uint32_t>("the type of " + subject));
  PendingTensor pending;
  ASSAY_ASSIGN_OR_RETURN(pending.offset, Read<uint64_t>("the offset of " + subject));

  const GgmlTypeInfo* info = FindGgmlType(tensor.type);
  if (info == nullptr) {
    return InvalidError("UNSUPPORTED_TENSOR_TYPE",
                        file_.path_ + ": " + subject + " has the unknown ggml type " +
                            std::to_string(tensor.type) +
                            "; convert the model to a known format, such as Q8_0 or BF16");
  }
  if (tensor.ne[0] % info->block != 0) {
    return Bad(subject + " has rows of " + std::to_string(tensor.ne[0]) + " values, " +
               std::string(info->name) + " needs a multiple of " + std::to_string(info->block));
  }
  std::optional<uint64_t> elements = 1;
  for (uint64_t dim : tensor.ne) elements = elements ? CheckedMul(*elements, dim) : elements;
  const std::optional<uint64_t> size =
      elements ? CheckedMul(*elements / info->block, info->bytes) : elements;
  if (!size || *size > kPlausibleBytes) return Bad(subject + " states an impossible size");
  if (pending.offset % file_.alignment_ != 0) {
    return Bad(subject + " has offset " + std::to_string(pending.offset) +
               ", not a multiple of the alignment " + std::to_string(file_.alignment_));
  }
  pending.bytes = *size;
  if (!file_.index_.emplace(tensor.name, file_.tensors_.size()).second)
    return Bad(subject + " appears twice");
  file_.tensors_.push_back(std::move(tensor));
  return pending;
}

// An interrupted download is the usual fault: its description is whole, its data are not.
absl::Status GgufParser::CheckNotCut(uint64_t data, const std::vector<PendingTensor>& pending) {
  uint64_t needed = data;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (pending[i].offset > kPlausibleBytes) {
      return Bad("tensor " + Shown(file_.tensors_[i].name) + " states the impossible offset " +
                 std::to_string(pending[i].offset));
    }
    needed = std::max(needed, data + pending[i].offset + pending[i].bytes);
  }
  if (needed <= bytes_.size()) return absl::OkStatus();
  return InvalidError("GGUF_INVALID", file_.path_ + ": the file is cut short: its tensors need " +
                                          std::to_string(needed) + " bytes, there are " +
                                          std::to_string(bytes_.size()) + "; fetch it again");
}

absl::Status GgufParser::PlaceTensors(const std::vector<PendingTensor>& pending) {
  const std::optional<uint64_t> padded = CheckedAdd(at_, file_.alignment_ - 1);
  if (!padded) return Bad("the data section starts beyond the file");
  const uint64_t data = *padded & ~(file_.alignment_ - 1);
  if (pending.empty()) return absl::OkStatus();
  ASSAY_RETURN_IF_ERROR(CheckNotCut(data, pending));
  const std::span<const uint8_t> section = bytes_.subspan(data);
  std::vector<size_t> order(pending.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return pending[a].offset < pending[b].offset; });
  uint64_t end = 0;
  for (size_t i : order) {
    GgufTensor& tensor = file_.tensors_[i];
    const PendingTensor& place = pending[i];
    if (place.offset < end) return Bad("tensor " + Shown(tensor.name) + " overlaps another");
    end = place.offset + place.bytes;
    tensor.bytes = section.subspan(place.offset, place.bytes);
  }
  return absl::OkStatus();
}

absl::Status GgufParser::Run() {
  ASSAY_ASSIGN_OR_RETURN(const uint32_t magic, Read<uint32_t>("the magic number"));
  if (magic != 0x46554747u) {  // "GGUF"
    at_ = 0;
    return Bad("does not start with \"GGUF\"");
  }
  ASSAY_ASSIGN_OR_RETURN(file_.version_, Read<uint32_t>("the version"));
  if (file_.version_ != 2 && file_.version_ != 3) {
    return Bad("version " + std::to_string(file_.version_) +
               " is not supported, 2 and 3 (little-endian) are");
  }
  ASSAY_ASSIGN_OR_RETURN(const uint64_t tensors, Read<uint64_t>("the tensor count"));
  ASSAY_ASSIGN_OR_RETURN(const uint64_t keys, Read<uint64_t>("the metadata count"));
  if (tensors > kGgufTensorsMax || keys > kGgufKeysMax) {
    return Bad("states " + std::to_string(tensors) + " tensors and " + std::to_string(keys) +
               " metadata keys, beyond the limits");
  }
  for (uint64_t i = 0; i < keys; ++i) ASSAY_RETURN_IF_ERROR(ReadKeyValue());
  ASSAY_RETURN_IF_ERROR(ReadAlignment());
  std::vector<PendingTensor> pending;
  for (uint64_t i = 0; i < tensors; ++i) {
    ASSAY_ASSIGN_OR_RETURN(PendingTensor tensor, ReadTensorInfo());
    pending.push_back(tensor);
  }
  return PlaceTensors(pending);
}

}  // namespace assay
