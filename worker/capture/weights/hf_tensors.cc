#include "worker/capture/weights/hf_tensors.h"

#include "storage/base/files.h"
#include "storage/base/macros.h"

namespace assay {

absl::StatusOr<HfTensors> HfTensors::Open(const ModelFiles& files) {
  HfTensors out;
  out.root_ = files.root;
  for (const auto& [tensor, file] : files.weight_map)
    out.places_[tensor].file = JoinPath(files.root, file);
  for (const std::string& name : files.weights) {
    const std::string path = JoinPath(files.root, name);
    ASSAY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
    ASSAY_ASSIGN_OR_RETURN(const uint64_t bytes, FileSize(path));
    out.file_bytes_ += bytes;
    for (const TensorView& view : file->tensors()) {
      if (files.weight_map.empty()) {
        out.places_[view.name] = {&view, path};
      } else if (const auto it = out.places_.find(view.name);
                 it != out.places_.end() && it->second.file == path) {
        it->second.view = &view;
      }
    }
    out.files_.push_back(std::move(file));
  }
  return out;
}

const TensorView* HfTensors::Find(std::string_view name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? nullptr : it->second.view;
}

std::string HfTensors::FileOf(std::string_view name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? root_ : it->second.file;
}

}  // namespace assay
