#include "worker/group/offline_heads.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/head.h"
#include "storage/format/model_spec.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

constexpr int64_t kDimMax = int64_t{1} << 40;
constexpr char kRounding[] = "bf16-rne";
constexpr char kRoundedTensor[] = "lm_head.weight";

bool IsGguf(const std::string& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof(magic)) && std::memcmp(magic, "GGUF", 4) == 0;
}

// IEEE binary16 to binary32, exact.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::vector<uint16_t> RoundToBf16(const TensorView& tensor) {
  std::vector<uint16_t> out(tensor.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    float value = 0;
    if (tensor.dtype == DType::kF32) {
      std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
    } else {
      uint16_t half = 0;
      std::memcpy(&half, tensor.bytes.data() + 2 * i, 2);
      value = HalfToFloat(half);
    }
    out[i] = FloatToBf16(value);
  }
  return out;
}

struct FileSpec {
  std::string path;
  std::string tensor;
};

// FILE[:TENSOR]: a colon counts only when the whole is no file.
FileSpec SplitFile(const std::string& spec) {
  const size_t colon = spec.rfind(':');
  if (FileExists(spec) || colon == std::string::npos) return {spec, ""};
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

std::string FreshName(const std::string& work, const std::string& spec) {
  return JoinPath(work, "head-" + Sha256Hex(spec).substr(0, 16));
}

absl::StatusOr<OfflineHead> HeadOfFile(const std::string& spec, const FileSpec& source,
                                       const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(source.path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, FindHeadTensor(*file, source.tensor));
  OfflineHead head;
  head.spec = spec;
  head.file = source.path;
  head.tensor = tensor.name;
  head.identity.vocab = tensor.shape[0];
  head.identity.hidden = tensor.shape[1];
  head.identity.original_dtype = std::string(DTypeName(tensor.dtype));
  Sha256 original;
  original.Update(tensor.bytes);
  head.identity.original_sha256 = original.FinishHex();
  head.identity.rounded_sha256 = head.identity.original_sha256;
  if (tensor.dtype == DType::kBF16) return head;
  const std::vector<uint16_t> rounded = RoundToBf16(tensor);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(rounded.data()),
                                       rounded.size() * sizeof(uint16_t));
  Sha256 digest;
  digest.Update(bytes);
  head.identity.rounded_sha256 = digest.FinishHex();
  head.identity.rounding = kRounding;
  SafetensorsBuilder builder;
  builder.Add(kRoundedTensor, DType::kBF16, tensor.shape, bytes);
  head.file = FreshName(work, spec) + ".safetensors";
  head.tensor = kRoundedTensor;
  ASSAY_RETURN_IF_ERROR(WriteFile(head.file, builder.Build()));
  return head;
}

absl::StatusOr<OfflineHead> HeadOfModel(const std::string& spec, const ModelSpec& model,
                                        Group& group, const std::string& work) {
  const std::string folder = FreshName(work, spec);
  const Json unit = {{"kind", "prepare"},
                     {"model", {{"path", model.path}, {"transform", model.transform}}}};
  ASSAY_ASSIGN_OR_RETURN(const UnitOutcome outcome, group.Run(unit, folder));
  const JsonFields result(outcome.result, "prepare result");
  ASSAY_ASSIGN_OR_RETURN(const Json* object, result.Object("head"));
  const JsonFields fields(*object, "prepare result: head");
  OfflineHead head;
  head.spec = spec;
  ASSAY_ASSIGN_OR_RETURN(const std::string name, fields.String("file"));
  head.file = JoinPath(folder, name);
  ASSAY_ASSIGN_OR_RETURN(head.tensor, fields.String("tensor"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t vocab, fields.Int("vocab", 1, kDimMax));
  ASSAY_ASSIGN_OR_RETURN(const int64_t hidden, fields.Int("hidden", 1, kDimMax));
  head.identity.vocab = static_cast<uint64_t>(vocab);
  head.identity.hidden = static_cast<uint64_t>(hidden);
  ASSAY_ASSIGN_OR_RETURN(head.identity.rounded_sha256, fields.Sha256("content_sha256"));
  ASSAY_ASSIGN_OR_RETURN(head.identity.original_dtype, fields.String("storage_format"));
  if (head.identity.original_dtype == "BF16") {
    head.identity.original_sha256 = head.identity.rounded_sha256;
  } else {
    head.identity.rounding = kRounding;
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* facts, result.Object("facts"));
  head.model_facts = *facts;
  head.identity.tied = facts->value("tied", false);
  return head;
}

}  // namespace

absl::StatusOr<OfflineHead> PrepareHead(const std::string& spec, Group& group,
                                        const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(const ModelSpec model, ParseModelSpec(spec));
  if (IsDirectory(model.path) || IsGguf(model.path)) {
    return HeadOfModel(spec, model, group, work);
  }
  const FileSpec source = SplitFile(spec);
  if (!FileExists(source.path)) {
    return NotFoundError("HEAD_MISSING",
                         source.path +
                             " does not exist; a head is FILE[:TENSOR] (safetensors) or "
                             "a model (GGUF file or Hugging Face folder)");
  }
  return HeadOfFile(spec, source, work);
}

}  // namespace assay
