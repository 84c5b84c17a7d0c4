// Where a Hugging Face folder keeps a text model among its tensors.
//
// A text checkpoint names its body "model.layers.0...", a bare base model "layers.0...", and a
// multimodal one keeps it beside other towers: "model.language_model.layers.0..." with the head at
// "lm_head.weight", or (older files) "language_model.model.layers.0..." and
// "language_model.lm_head.weight".

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_HF_NAMES_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_HF_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

class HfNames {
 public:
  // Finds the prefix of the body by its embedding. `names` is any range of pairs whose first is a
  // tensor name. TENSOR_MISSING when there is no embedding, MODEL_UNRECOGNISED when two bodies have
  // one. `where` names the folder.
  template <typename Map>
  static absl::StatusOr<HfNames> Find(const Map& names, std::string_view where) {
    HfNames out;
    for (const auto& entry : names) {
      const absl::Status status = out.Look(entry.first, where);
      if (!status.ok()) return status;
    }
    const absl::Status found = out.Finish(where);
    if (!found.ok()) return found;
    return out;
  }

  // The file's name of a tensor of arch-qwen-llama section 2: "model.norm.weight",
  // "lm_head.weight".
  std::string Stored(std::string_view hf_name) const;

  // Whether a tensor takes no part in the text model's forward pass: buffers that old files carry,
  // the head of a tied model, and whatever stands beside the body of a multimodal model.
  bool Ignored(std::string_view stored_name, bool tied) const;

 private:
  absl::Status Look(std::string_view name, std::string_view where);
  absl::Status Finish(std::string_view where);

  bool found_ = false;
  std::string body_;                     // "model.", "", "model.language_model.", ...
  std::string head_ = "lm_head.weight";  // its name when there is one
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_HF_NAMES_H_
