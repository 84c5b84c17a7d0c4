#include "worker/group/offline_heads.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/f16.h"
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
constexpr char kNoBias[] = "none";

bool IsGguf(const std::string& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof(magic)) && std::memcmp(magic, "GGUF", 4) == 0;
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
      value = F16ToFloat(half);
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

absl::StatusOr<OfflineHead> HeadOf(const std::string& spec, Group& group, const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(const ModelSpec model, ParseModelSpec(spec));
  if (IsDirectory(model.path) || IsGguf(model.path)) {
    return HeadOfModel(spec, model, group, work);
  }
  const FileSpec source = SplitFile(spec);
  if (const absl::Status missing = MissingModelError(spec);
      !FileExists(source.path) && ReasonOf(missing) == "TRANSFORM_INVALID") {
    return missing;
  }
  if (!FileExists(source.path)) {
    return NotFoundError("HEAD_MISSING",
                         source.path +
                             " does not exist; a head is FILE[:TENSOR] (safetensors) or "
                             "a model (GGUF file or Hugging Face folder)");
  }
  return HeadOfFile(spec, source, work);
}

// The bias that the request names, or that lies beside the weight in a head's file.
absl::Status AddBias(const HeadRequest& request, OfflineHead* head) {
  if (request.bias == kNoBias) return absl::OkStatus();
  FileSpec source = SplitFile(request.bias);
  if (request.bias.empty()) {
    if (!head->model_facts.is_null()) return absl::OkStatus();
    const FileSpec weight = SplitFile(head->spec);
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(weight.path));
    ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, FindHeadTensor(*file, weight.tensor));
    source = {weight.path, BiasBeside(*file, tensor.name)};
    if (source.tensor.empty()) return absl::OkStatus();
    head->bias_found = true;
  }
  if (!FileExists(source.path)) {
    return NotFoundError("HEAD_MISSING", source.path +
                                             " does not exist; a head bias is FILE[:TENSOR] "
                                             "(safetensors) or none");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(source.path));
  ASSAY_ASSIGN_OR_RETURN(const HeadBias bias,
                         ReadHeadBias(*file, source.tensor, head->identity.vocab));
  head->bias_file = source.path;
  head->bias_tensor = bias.tensor;
  head->identity.bias_sha256 = bias.content_sha256;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OfflineHead> PrepareHead(const HeadRequest& request, Group& group,
                                        const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(OfflineHead head, HeadOf(request.spec, group, work));
  if (request.logit_scale && *request.logit_scale != 1) {
    head.identity.logit_scale = request.logit_scale;
  }
  ASSAY_RETURN_IF_ERROR(AddBias(request, &head));
  return head;
}

}  // namespace assay
