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
#include "storage/format/model_files.h"
#include "storage/format/model_names.h"
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

// FILE[:TENSOR]: a colon counts only when the whole is no file or folder.
FileSpec SplitFile(const std::string& spec) {
  const size_t colon = spec.rfind(':');
  if (FileExists(spec) || IsDirectory(spec) || colon == std::string::npos) return {spec, ""};
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
  head.stored_file = source.path;
  head.stored_tensor = tensor.name;
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
                                        const GroupSource& source, const std::string& work) {
  const std::string folder = FreshName(work, spec);
  ASSAY_ASSIGN_OR_RETURN(Group* const group, source());
  const Json unit = {{"kind", "prepare"},
                     {"model", {{"path", model.path}, {"transform", model.transform}}}};
  ASSAY_ASSIGN_OR_RETURN(const UnitOutcome outcome, group->Run(unit, folder));
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
  head.of_model = true;
  head.identity.tied = facts->value("tied", false);
  return head;
}

// Where a tensor of a folder lies.
struct Place {
  std::string file, tensor;
};

// Whether the configuration says that the embedding is the head; nested as multimodal models do.
bool SaysTied(const Json& config) {
  for (const Json* part :
       {&config, config.contains("text_config") ? &config["text_config"] : &config}) {
    if (part->is_object() && part->contains("tie_word_embeddings") &&
        (*part)["tie_word_embeddings"].is_boolean()) {
      return (*part)["tie_word_embeddings"].get<bool>();
    }
  }
  return false;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF32 || dtype == DType::kF16;
}

// The head among the tensors of a folder, by name alone; with `tensor` that one. An empty place
// when none, or more than one, could be meant.
absl::StatusOr<Place> FindInFolder(const std::string& folder, const std::string& tensor,
                                   bool* tied) {
  ASSAY_ASSIGN_OR_RETURN(const ModelFiles files, ResolveModelFiles(folder));
  std::vector<Place> heads, embeddings;
  const auto is = [](const std::string& name, const std::string& wanted) {
    return name == wanted || name.ends_with("." + wanted);
  };
  for (const std::string& weights : files.weights) {
    const std::string path = JoinPath(files.root, weights);
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
    for (const TensorView& view : file->tensors()) {
      if (view.name == tensor) return Place{path, view.name};
      if (!IsFloat(view.dtype) || view.shape.size() != 2) continue;
      if (is(view.name, "lm_head.weight")) heads.push_back({path, view.name});
      if (is(view.name, "embed_tokens.weight")) embeddings.push_back({path, view.name});
    }
  }
  if (!tensor.empty()) {
    return NotFoundError("HEAD_MISSING",
                         folder + ": none of its files has a tensor \"" + tensor + "\"");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json config, ReadJsonFile(JoinPath(files.root, "config.json")));
  *tied = SaysTied(config) || heads.empty();
  const std::vector<Place>& found = *tied ? embeddings : heads;
  return found.size() == 1 ? found.front() : Place{};
}

absl::StatusOr<OfflineHead> HeadOfFolder(const std::string& spec, const FileSpec& folder,
                                         const GroupSource& group, const std::string& work) {
  bool tied = false;
  ASSAY_ASSIGN_OR_RETURN(const Place place, FindInFolder(folder.path, folder.tensor, &tied));
  if (place.file.empty()) return HeadOfModel(spec, {folder.path, ""}, group, work);
  ASSAY_ASSIGN_OR_RETURN(OfflineHead head, HeadOfFile(spec, {place.file, place.tensor}, work));
  head.identity.tied = tied;
  head.of_model = true;
  return head;
}

absl::StatusOr<OfflineHead> HeadOf(const std::string& spec, const GroupSource& group,
                                   const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(ModelSpec model, ParseModelSpec(spec));
  ASSAY_ASSIGN_OR_RETURN(model.path, ModelPathOf(model.path));
  if (IsGguf(model.path)) return HeadOfModel(spec, model, group, work);
  // A transform touches block linears only, so that a folder's head is the same with it.
  if (IsDirectory(model.path)) return HeadOfFolder(spec, {model.path, ""}, group, work);
  const FileSpec source = SplitFile(spec);
  if (IsDirectory(source.path)) return HeadOfFolder(spec, source, group, work);
  if (const absl::Status missing = MissingModelError(spec);
      !FileExists(source.path) && ReasonOf(missing) == "TRANSFORM_INVALID") {
    return missing;
  }
  if (!FileExists(source.path)) {
    return NotFoundError("HEAD_MISSING",
                         source.path +
                             " does not exist; a head is FILE[:TENSOR] (safetensors), a model "
                             "(GGUF file or Hugging Face folder), or models/NAME of one that "
                             "assay model add PATH --name NAME has named on this node");
  }
  return HeadOfFile(spec, source, work);
}

// The bias that the request names, or that lies beside the weight in a head's file.
absl::Status AddBias(const HeadRequest& request, OfflineHead* head) {
  if (request.bias == kNoBias) return absl::OkStatus();
  FileSpec source = SplitFile(request.bias);
  if (request.bias.empty()) {
    if (head->of_model) return absl::OkStatus();
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

absl::StatusOr<OfflineHead> PrepareHead(const HeadRequest& request, const GroupSource& group,
                                        const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(OfflineHead head, HeadOf(request.spec, group, work));
  if (request.logit_scale && *request.logit_scale != 1) {
    head.identity.logit_scale = request.logit_scale;
  }
  ASSAY_RETURN_IF_ERROR(AddBias(request, &head));
  return head;
}

}  // namespace assay
