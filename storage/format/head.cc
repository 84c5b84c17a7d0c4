#include "storage/format/head.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/f16.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::Status Bad(const std::string& path, const std::string& why) {
  return InvalidError("HEAD_INVALID",
                      path + ": " + why +
                          "; a head is a [vocab, hidden] tensor in BF16, F32 or F16, name it with "
                          "FILE:TENSOR");
}

// SHA-256 of the values as bf16, in pieces.
std::string ContentSha256(const TensorView& tensor) {
  Sha256 digest;
  if (tensor.dtype == DType::kBF16) {
    digest.Update(tensor.bytes);
    return digest.FinishHex();
  }
  constexpr uint64_t kPiece = 1 << 16;
  std::vector<uint16_t> rounded(kPiece);
  for (uint64_t at = 0, total = tensor.elements(); at < total; at += kPiece) {
    const uint64_t count = std::min(kPiece, total - at);
    for (uint64_t i = 0; i < count; ++i) rounded[i] = FloatToBf16(ElementOf(tensor, at + i));
    digest.Update({reinterpret_cast<const uint8_t*>(rounded.data()), count * 2});
  }
  return digest.FinishHex();
}

// Bits of the largest finite magnitude: magnitudes order as their bits do.
template <typename T>
T MaxMagnitude(const TensorView& tensor, T infinity) {
  T max = 0;
  const size_t count = tensor.bytes.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    bits = static_cast<T>(bits & static_cast<T>(static_cast<T>(~T{0}) >> 1));
    max = std::max(max, bits < infinity ? bits : T{0});
  }
  return max;
}

}  // namespace

float ElementOf(const TensorView& tensor, uint64_t i) {
  if (tensor.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, tensor.bytes.data() + 2 * i, 2);
  return tensor.dtype == DType::kBF16 ? Bf16ToFloat(half) : F16ToFloat(half);
}

double MaxAbs(const TensorView& tensor) {
  if (tensor.dtype == DType::kBF16) return Bf16ToFloat(MaxMagnitude<uint16_t>(tensor, 0x7f80));
  if (tensor.dtype == DType::kF16) return F16ToFloat(MaxMagnitude<uint16_t>(tensor, 0x7c00));
  if (tensor.dtype != DType::kF32) return 0;
  const auto bits = MaxMagnitude<uint32_t>(tensor, 0x7f800000);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

absl::StatusOr<TensorView> FindHeadTensor(const SafetensorsFile& file, std::string_view tensor) {
  std::string name(tensor);
  if (name.empty()) {
    if (file.tensors().empty()) return Bad(file.path(), "the file holds no tensor");
    name = file.tensors().front().name;
    for (const char* usual : {"lm_head.weight", "weight"}) {
      if (file.Has(usual)) name = usual;
    }
  }
  if (!file.Has(name)) return Bad(file.path(), "there is no tensor \"" + name + "\"");
  ASSAY_ASSIGN_OR_RETURN(TensorView view, file.Find(name));
  if (view.shape.size() != 2 || view.elements() == 0)
    return Bad(file.path(), "tensor \"" + name + "\" is not two-dimensional");
  if (view.dtype != DType::kBF16 && view.dtype != DType::kF32 && view.dtype != DType::kF16) {
    return Bad(file.path(), "tensor \"" + name + "\" is " + std::string(DTypeName(view.dtype)));
  }
  return view;
}

std::string BiasBeside(const SafetensorsFile& file, std::string_view weight_tensor) {
  constexpr std::string_view kWeight = "weight", kBias = "bias";
  if (!weight_tensor.ends_with(kWeight)) return "";
  std::string name(weight_tensor.substr(0, weight_tensor.size() - kWeight.size()));
  name += kBias;
  return file.Has(name) ? name : "";
}

absl::StatusOr<HeadBias> ReadHeadBias(const SafetensorsFile& file, std::string_view tensor,
                                      uint64_t vocab) {
  const auto bad = [&](const std::string& why) {
    return InvalidError("HEAD_INVALID", file.path() + ": " + why + "; a head bias is a [" +
                                            std::to_string(vocab) +
                                            "] tensor in F32, BF16 or F16, name it with "
                                            "FILE:TENSOR");
  };
  HeadBias bias;
  bias.tensor = std::string(tensor);
  if (tensor.empty() && file.tensors().size() == 1) bias.tensor = file.tensors()[0].name;
  for (const char* usual : {"bias", "lm_head.bias"}) {
    if (tensor.empty() && file.Has(usual)) bias.tensor = usual;
  }
  if (bias.tensor.empty()) return bad("the file has several tensors");
  if (!file.Has(bias.tensor)) return bad("there is no tensor \"" + bias.tensor + "\"");
  ASSAY_ASSIGN_OR_RETURN(const TensorView view, file.Find(bias.tensor));
  if (view.shape != std::vector<uint64_t>{vocab}) {
    return bad("tensor \"" + bias.tensor + "\" has another shape");
  }
  if (view.dtype != DType::kBF16 && view.dtype != DType::kF32 && view.dtype != DType::kF16) {
    return bad("tensor \"" + bias.tensor + "\" is " + std::string(DTypeName(view.dtype)));
  }
  bias.values.resize(vocab);
  for (uint64_t v = 0; v < vocab; ++v) bias.values[v] = ElementOf(view, v);
  bias.content_sha256 =
      Sha256Hex({reinterpret_cast<const char*>(bias.values.data()), bias.values.size() * 4});
  return bias;
}

absl::StatusOr<HeadInfo> InspectHead(const std::string& path, std::string_view tensor) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView view, FindHeadTensor(*file, tensor));
  HeadInfo info;
  info.tensor = view.name;
  info.vocab = view.shape[0];
  info.hidden = view.shape[1];
  info.dtype = view.dtype;
  info.content_sha256 = ContentSha256(view);
  info.max_abs = MaxAbs(view);
  ASSAY_ASSIGN_OR_RETURN(info.file_sha256, Sha256File(path));
  return info;
}

}  // namespace assay
