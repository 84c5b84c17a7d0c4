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
  const uint64_t width = DTypeBytes(tensor.dtype);
  for (uint64_t at = 0, total = tensor.elements(); at < total; at += kPiece) {
    const uint64_t count = std::min(kPiece, total - at);
    for (uint64_t i = 0; i < count; ++i) {
      const uint8_t* source = tensor.bytes.data() + (at + i) * width;
      float value;
      if (tensor.dtype == DType::kF32) {
        std::memcpy(&value, source, 4);
      } else {
        uint16_t half;
        std::memcpy(&half, source, 2);
        value = F16ToFloat(half);
      }
      rounded[i] = FloatToBf16(value);
    }
    digest.Update({reinterpret_cast<const uint8_t*>(rounded.data()), count * 2});
  }
  return digest.FinishHex();
}

}  // namespace

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

absl::StatusOr<HeadInfo> InspectHead(const std::string& path, std::string_view tensor) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView view, FindHeadTensor(*file, tensor));
  HeadInfo info;
  info.tensor = view.name;
  info.vocab = view.shape[0];
  info.hidden = view.shape[1];
  info.dtype = view.dtype;
  info.content_sha256 = ContentSha256(view);
  ASSAY_ASSIGN_OR_RETURN(info.file_sha256, Sha256File(path));
  return info;
}

}  // namespace assay
