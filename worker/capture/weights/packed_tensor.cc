#include "worker/capture/weights/packed_tensor.h"

#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kAdvice =
    "; the checkpoint is damaged or of another version of its format: fetch it again, or capture "
    "it "
    "with the engine that serves it";

}  // namespace

uint64_t PackedParts::bytes() const {
  uint64_t sum = 0;
  for (const TensorView* part : {codes, scales, zeros, group_index, global_scale}) {
    if (part != nullptr) sum += part->bytes.size();
  }
  return sum;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

absl::Status QuantizationError(const PackedParts& parts, const TensorView& tensor,
                               std::string_view why) {
  return InvalidError("QUANTIZATION_INVALID", parts.file + ": tensor \"" +
                                                  tensor.name.substr(0, 200) + "\" " +
                                                  std::string(why) + std::string(kAdvice));
}

absl::Status QuantizationMissing(const PackedParts& parts, std::string_view what) {
  return InvalidError("QUANTIZATION_INVALID", parts.file + ": \"" + parts.module +
                                                  "\" is quantized but has no " +
                                                  std::string(what) + std::string(kAdvice));
}

absl::Status CheckPart(const PackedParts& parts, const TensorView& tensor, DType dtype,
                       const std::vector<uint64_t>& shape) {
  const bool scalar = tensor.shape.empty() && shape == std::vector<uint64_t>{1};
  if (tensor.dtype == dtype && (tensor.shape == shape || scalar)) return absl::OkStatus();
  return QuantizationError(parts, tensor,
                           "is " + std::string(DTypeName(tensor.dtype)) + " " +
                               ShapeText(tensor.shape) + " where " + std::string(DTypeName(dtype)) +
                               " " + ShapeText(shape) + " is needed");
}

}  // namespace assay
