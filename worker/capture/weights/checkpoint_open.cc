// Opening checkpoints: files to tensors, checked against the family's plan.

#include <algorithm>
#include <set>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_files.h"
#include "storage/format/model_spec.h"
#include "worker/capture/weights/checkpoint.h"
#include "worker/capture/weights/hf_names.h"
#include "worker/capture/weights/tensor_plan.h"

namespace assay {
namespace {

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

absl::Status Missing(const std::string& file, const std::string& tensor) {
  return NotFoundError("TENSOR_MISSING",
                       file + ": tensor \"" + tensor +
                           "\" is missing; the checkpoint is incomplete, fetch it again");
}

absl::Status UnsupportedType(const std::string& file, const std::string& tensor,
                             std::string_view format) {
  return InvalidError("UNSUPPORTED_TENSOR_TYPE",
                      file + ": tensor \"" + tensor + "\" is stored as " + std::string(format) +
                          ", supported are " + std::string(kSupportedWeightFormats) +
                          "; use a version of the model in one of these, or capture it with "
                          "another engine");
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
    return UnsupportedType(tensor.file, tensor.stored_name,
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
    if (!format) return UnsupportedType(path, planned.gguf_name, FindGgmlType(stored->type)->name);
    StoredTensor tensor;
    tensor.shape.assign(stored->ne.rbegin(), stored->ne.rend());
    ASSAY_RETURN_IF_ERROR(CheckShape(planned, tensor.shape, planned.gguf_name, path));
    tensor.stored_name = planned.gguf_name;
    tensor.file = path;
    tensor.format = *format;
    tensor.bytes = stored->bytes;
    if (planned.permuted) tensor.permuted_head_rows = static_cast<uint64_t>(out_.config_.head_dim);
    ASSAY_RETURN_IF_ERROR(Add(planned, std::move(tensor)));
    used.insert(planned.gguf_name);
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

  std::map<std::string, std::shared_ptr<const SafetensorsFile>> open;
  for (const std::string& name : files.weights) {
    const std::string path = JoinPath(files.root, name);
    ASSAY_ASSIGN_OR_RETURN(open[name], SafetensorsFile::Open(path));
    ASSAY_ASSIGN_OR_RETURN(const uint64_t bytes, FileSize(path));
    out_.file_bytes_ += bytes;
    out_.files_.push_back(open[name]);
  }
  std::map<std::string, std::string> places;  // tensor -> weight file
  for (const auto& [tensor, file] : files.weight_map) places[tensor] = file;
  if (files.weight_map.empty()) {
    const std::string& only = files.weights.front();
    for (const TensorView& view : open[only]->tensors()) places[view.name] = only;
  }

  ASSAY_ASSIGN_OR_RETURN(const HfNames names, HfNames::Find(places, files.root));
  std::set<std::string> used;
  for (const PlannedTensor& planned : PlanTensors(out_.config_)) {
    const std::string name = names.Stored(planned.hf_name);
    const auto place = places.find(name);
    if (place == places.end()) return Missing(files.root, name);
    const SafetensorsFile& file = *open[place->second];
    if (!file.Has(name)) return Missing(file.path(), name);
    ASSAY_ASSIGN_OR_RETURN(const TensorView view, file.Find(name));
    const auto format = FormatOfDType(view.dtype);
    if (!format) return UnsupportedType(file.path(), name, DTypeName(view.dtype));
    ASSAY_RETURN_IF_ERROR(CheckShape(planned, view.shape, name, file.path()));
    StoredTensor tensor;
    tensor.stored_name = name;
    tensor.file = file.path();
    tensor.format = *format;
    tensor.shape = view.shape;
    tensor.bytes = view.bytes;
    ASSAY_RETURN_IF_ERROR(Add(planned, std::move(tensor)));
    used.insert(name);
  }
  for (const auto& [name, file] : places) {
    if (used.count(name) == 0 && !names.Ignored(name, out_.config_.tied))
      return Unknown(JoinPath(files.root, file), name, out_.config_.family);
  }
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
