// One file of vLLM's hidden-state extraction (speculative method `extract_hidden_states`).
//
// vLLM's ExampleHiddenStatesConnector writes one NAME.safetensors for each request, with
//
//   hidden_states  [tokens, layers, hidden]; in releases before the connector wrote asynchronously
//                  [layers, tokens, hidden]; in the model's dtype
//   token_ids      [tokens], int64: the prompt, and the generated tokens where they were asked for
//
// The layers are those of eagle_aux_hidden_state_layer_ids in ascending order; layer id N is the
// residual stream after N layers. Neither the ids nor the cut are in the file.

#ifndef ASSAY_STORAGE_VLLM_EXTRACTED_FILE_H_
#define ASSAY_STORAGE_VLLM_EXTRACTED_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/format/safetensors.h"

namespace assay {

enum class VllmAxes { kTokensFirst, kLayersFirst };
std::string_view VllmAxesName(VllmAxes axes);  // "tokens-first", "layers-first"

class VllmExtractedFile {
 public:
  // The axis that counts tokens is the one of token_ids' length; where both could be it and `axes`
  // does not say, AXES_AMBIGUOUS. TENSOR_MISSING, DTYPE_UNSUPPORTED, SHAPE_MISMATCH,
  // SAFETENSORS_INVALID.
  static absl::StatusOr<VllmExtractedFile> Open(const std::string& path,
                                                std::optional<VllmAxes> axes);

  const std::string& path() const { return file_->path(); }
  VllmAxes axes() const { return axes_; }
  std::string_view dtype() const { return DTypeName(states_.dtype); }
  uint64_t layers() const { return layers_; }
  uint64_t width() const { return width_; }
  const std::vector<int64_t>& tokens() const { return tokens_; }

  // Rows [count, width] of one layer, of the first `count` tokens, widened exactly.
  // count <= tokens().size().
  std::vector<float> Rows(uint64_t layer, uint64_t count) const;

 private:
  VllmExtractedFile() = default;

  std::shared_ptr<const SafetensorsFile> file_;
  TensorView states_;
  VllmAxes axes_ = VllmAxes::kTokensFirst;
  uint64_t layers_ = 0, width_ = 0;
  std::vector<int64_t> tokens_;
};

// The *.safetensors of a folder, sorted. FILE_MISSING where it is no folder or holds none;
// DTYPE_UNSUPPORTED for compressed files.
absl::StatusOr<std::vector<std::string>> ListVllmFiles(const std::string& folder);

// FILE_BUSY while vLLM writes the file: it holds a lock on NAME.safetensors.lock until then.
absl::Status CheckVllmFileFinished(const std::string& path);

}  // namespace assay

#endif  // ASSAY_STORAGE_VLLM_EXTRACTED_FILE_H_
