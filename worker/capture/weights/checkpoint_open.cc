// Opening checkpoints: files to tensors, checked against the family's plan.

#include <algorithm>
#include <set>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_files.h"
#include "storage/format/model_spec.h"
#include "worker/capture/weights/checkpoint.h"
#include "worker/capture/weights/foreign_formats.h"
#include "worker/capture/weights/hf_names.h"
#include "worker/capture/weights/hf_tensors.h"
#include "worker/capture/weights/load.h"
#include "worker/capture/weights/packed_open.h"
#include "worker/capture/weights/quant_config.h"
#include "worker/capture/weights/tensor_plan.h"

namespace assay {
namespace {

absl::Status Missing(const std::string& file, const std::string& tensor) {
  return NotFoundError("TENSOR_MISSING",
                       file + ": tensor \"" + tensor +
                           "\" is missing; the checkpoint is incomplete, fetch it again");
}

// A tensor that the plan does not know changes the forward pass in a way that is not built.
absl::Status Unknown(const std::string& file, const std::string& tensor,
                     const std::string& family) {
  return InvalidError("UNSUPPORTED_MODEL_FEATURE",
                      file + ": tensor \"" + tensor.substr(0, 200) + "\" belongs to no part of a " +
                          family +
                          " model; use a checkpoint without it, or capture with your own engine");
}

absl::Status CheckShape(const PlannedTensor& planned, const std::vector<uint64_t>& shape,
                        const std::string& stored_name, const std::string& file) {
  if (shape == planned.shape) return absl::OkStatus();
  return InvalidError("SHAPE_MISMATCH", file + ": tensor \"" + stored_name + "\" is " +
                                            ShapeText(shape) + ", the configuration needs " +
                                            ShapeText(planned.shape) +
                                            "; weights and configuration are of different models, "
                                            "fetch them again");
}

// Tensors that change nothing: scales of activations, and the zero biases that AutoGPTQ writes.
bool IsIdle(const std::string& name, const TensorView* view, const QuantConfig& quantization) {
  if (IsActivationScale(name)) return true;
  return quantization.method() == "gptq" && view != nullptr && name.ends_with("_proj.bias") &&
         std::all_of(view->bytes.begin(), view->bytes.end(), [](uint8_t b) { return b == 0; });
}

// The factor of a whole GGUF tensor: an F32 tensor of one value beside it, 1 when there is none.
absl::StatusOr<float> ReadGgufScale(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.Find(name);
  if (tensor == nullptr) return 1.0f;
  if (tensor->type != kGgmlF32 || tensor->elements() != 1) {
    return InvalidError("QUANTIZATION_INVALID",
                        file.path() + ": tensor \"" + name +
                            "\" must be one F32 value; fetch or convert the file again");
  }
  return Load<float>(tensor->bytes.data());
}

}  // namespace

// Fills a Checkpoint; a class so that it can be a friend.
class CheckpointBuilder {
 public:
  explicit CheckpointBuilder(Checkpoint& out) : out_(out) {}
  absl::Status SetTransform(std::string_view transform);
  absl::Status OpenGguf(const std::string& path);
  absl::Status OpenHf(const ModelFiles& files);
  absl::Status CheckTransformFits() const;
  void SetPath(const std::string& path) { out_.path_ = path; }

 private:
  absl::Status Add(const PlannedTensor& planned, StoredTensor tensor);
  // One tensor of a folder, stored under `name` or packed in several; adds their names to `used`.
  absl::Status AddHf(const PlannedTensor& planned, const std::string& name,
                     const HfTensors& tensors, const QuantConfig& quantization,
                     std::set<std::string>& used);

  Checkpoint& out_;
};

absl::Status CheckpointBuilder::SetTransform(std::string_view transform) {
  if (transform.empty()) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const RtnTransform rtn, ParseRtnTransform(transform));
  out_.transform_ = rtn.Canonical();
  out_.transform_bits_ = rtn.bits;
  out_.transform_group_ = rtn.group;
  return absl::OkStatus();
}

absl::Status CheckpointBuilder::CheckTransformFits() const {
  if (out_.transform_group_ == 0) return absl::OkStatus();
  for (const auto& [name, tensor] : out_.tensors_) {
    if (!tensor.block_linear || tensor.cols() % out_.transform_group_ == 0) continue;
    return InvalidError("TRANSFORM_INVALID",
                        "weight transform \"" + out_.transform_ + "\": \"" + name + "\" has " +
                            std::to_string(tensor.cols()) +
                            " inputs, not a multiple of the group; choose a group that divides it");
  }
  return absl::OkStatus();
}

absl::Status CheckpointBuilder::Add(const PlannedTensor& planned, StoredTensor tensor) {
  const uint64_t block = WeightBlock(tensor.format);
  const uint64_t cols = tensor.cols();
  // Blocks run along rows; a vector's rows have one value each, so a quantized vector ends here.
  if (cols % block != 0) {
    return UnsupportedFormat(tensor.file, tensor.stored_name,
                             std::string(WeightFormatName(tensor.format)) + " with rows of " +
                                 std::to_string(cols) + " values");
  }
  tensor.row_bytes = cols / block * WeightBlockBytes(tensor.format);
  if (tensor.bytes.size() / tensor.row_bytes != tensor.rows()) {
    return InternalError("SHAPE_MISMATCH", tensor.file + ": tensor \"" + tensor.stored_name +
                                               "\" has another size than its shape");
  }
  tensor.block_linear = planned.block_linear;
  out_.tensors_.emplace(planned.hf_name, std::move(tensor));
  return absl::OkStatus();
}

absl::Status CheckpointBuilder::OpenGguf(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(out_.config_, ConfigFromGguf(*file));
  out_.files_.push_back(file);
  ASSAY_ASSIGN_OR_RETURN(out_.file_bytes_, FileSize(path));
  std::set<std::string> used = {"rope_freqs.weight"};
  for (const PlannedTensor& planned : PlanTensors(out_.config_)) {
    const GgufTensor* stored = file->Find(planned.gguf_name);
    if (stored == nullptr) return Missing(path, planned.gguf_name);
    const auto format = FormatOfGgml(stored->type);
    if (!format)
      return UnsupportedFormat(path, planned.gguf_name, FindGgmlType(stored->type)->name);
    StoredTensor tensor;
    tensor.shape.assign(stored->ne.rbegin(), stored->ne.rend());
    ASSAY_RETURN_IF_ERROR(CheckShape(planned, tensor.shape, planned.gguf_name, path));
    tensor.stored_name = planned.gguf_name;
    tensor.file = path;
    tensor.format = *format;
    tensor.bytes = stored->bytes;
    if (planned.permuted) tensor.permuted_head_rows = static_cast<uint64_t>(out_.config_.head_dim);
    used.insert(planned.gguf_name);
    if (planned.gguf_name.ends_with(".weight") && tensor.shape.size() == 2) {
      const std::string stem = planned.gguf_name.substr(0, planned.gguf_name.rfind('.'));
      ASSAY_ASSIGN_OR_RETURN(tensor.scale, ReadGgufScale(*file, stem + ".scale"));
      used.insert({stem + ".scale", stem + ".input_scale"});
    }
    ASSAY_RETURN_IF_ERROR(Add(planned, std::move(tensor)));
  }
  for (const GgufTensor& tensor : file->tensors()) {
    if (used.count(tensor.name) == 0) return Unknown(path, tensor.name, out_.config_.family);
  }
  return absl::OkStatus();
}

absl::Status CheckpointBuilder::OpenHf(const ModelFiles& files) {
  const std::string config_path = JoinPath(files.root, "config.json");
  ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(config_path));
  ASSAY_ASSIGN_OR_RETURN(out_.config_, ConfigFromHf(json, config_path));

  // A multimodal configuration may say it of its text part.
  const bool nested = !json.contains("quantization_config") && json.contains("text_config");
  ASSAY_ASSIGN_OR_RETURN(const QuantConfig quantization,
                         QuantConfig::Parse(nested ? json["text_config"] : json, config_path));
  ASSAY_ASSIGN_OR_RETURN(const HfTensors tensors, HfTensors::Open(files));
  out_.file_bytes_ = tensors.file_bytes();
  out_.files_.assign(tensors.files().begin(), tensors.files().end());

  ASSAY_ASSIGN_OR_RETURN(const HfNames names, HfNames::Find(tensors.places(), files.root));
  std::set<std::string> used;
  for (const PlannedTensor& planned : PlanTensors(out_.config_))
    ASSAY_RETURN_IF_ERROR(
        AddHf(planned, names.Stored(planned.hf_name), tensors, quantization, used));
  for (const auto& [name, place] : tensors.places()) {
    if (used.count(name) != 0 || names.Ignored(name, out_.config_.tied) ||
        IsIdle(name, place.view, quantization)) {
      continue;
    }
    const std::string_view foreign = ForeignFormatOfTensor(name);
    if (!foreign.empty()) return UnsupportedFormat(place.file, name, foreign);
    return Unknown(place.file, name, out_.config_.family);
  }
  return absl::OkStatus();
}

absl::Status CheckpointBuilder::AddHf(const PlannedTensor& planned, const std::string& name,
                                      const HfTensors& tensors, const QuantConfig& quantization,
                                      std::set<std::string>& used) {
  StoredTensor tensor;
  tensor.stored_name = name;
  tensor.file = tensors.FileOf(name);
  const TensorView* view = tensors.Find(name);
  if (view != nullptr && FormatOfDType(view->dtype)) {
    ASSAY_RETURN_IF_ERROR(CheckShape(planned, view->shape, name, tensor.file));
    tensor.format = *FormatOfDType(view->dtype);
    tensor.shape = view->shape;
    tensor.bytes = view->bytes;
    used.insert(name);
    return Add(planned, std::move(tensor));
  }
  if (planned.shape.size() != 2) {
    if (view == nullptr) return Missing(tensor.file, name);
    return UnsupportedFormat(tensor.file, name, DTypeName(view->dtype));
  }
  const PackedQuery query = {name, planned.shape[0], planned.shape[1], tensor.file};
  ASSAY_ASSIGN_OR_RETURN(PackedWeight packed,
                         OpenPackedWeight(quantization, query, [&](std::string_view part) {
                           return tensors.Find(part);
                         }));
  used.insert(packed.used.begin(), packed.used.end());
  tensor.shape = planned.shape;
  tensor.block_linear = planned.block_linear;
  tensor.packed = std::move(packed.tensor);
  out_.tensors_.emplace(planned.hf_name, std::move(tensor));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path,
                                                             std::string_view transform) {
  std::unique_ptr<Checkpoint> out(new Checkpoint());
  CheckpointBuilder builder(*out);
  builder.SetPath(path);
  ASSAY_RETURN_IF_ERROR(builder.SetTransform(transform));
  ASSAY_ASSIGN_OR_RETURN(const ModelFiles files, ResolveModelFiles(path));
  ASSAY_RETURN_IF_ERROR(files.gguf ? builder.OpenGguf(path) : builder.OpenHf(files));
  ASSAY_RETURN_IF_ERROR(builder.CheckTransformFits());
  return out;
}

}  // namespace assay
