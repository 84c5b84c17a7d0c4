// The final norm of a Hugging Face checkpoint, applied to states that were taken before it.

#ifndef ASSAY_STORAGE_VLLM_FINAL_NORM_H_
#define ASSAY_STORAGE_VLLM_FINAL_NORM_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// y = x / sqrt(mean(x^2) + eps) * weight, in float64 and rounded once to float32. Sums are taken in
// numpy's pairwise order, so that the importer of the Python package gives the same bits.
struct FinalNorm {
  std::vector<double> weight;  // what is multiplied with: one plus the stored weight for some
  double eps = 0;
  std::string tensor;         // name in the checkpoint
  std::string weight_sha256;  // of the tensor's bytes as stored
  bool plus_one = false;
  int64_t layers = 0;  // num_hidden_layers: vLLM's id of the layer whose states the norm takes

  // Norms `rows` [n, width] in place. SHAPE_MISMATCH when width is not that of the weight.
  absl::Status Apply(std::span<float> rows, uint64_t width) const;

  Json Describe() const;  // for the manifest: what decides the bits
};

// Reads the final norm of a Hugging Face folder. MODEL_UNRECOGNISED, TENSOR_MISSING (none or
// several), FINAL_NORM_UNKNOWN (a family whose norm is not known to be RMSNorm), FIELD_*,
// DTYPE_UNSUPPORTED, and the errors of the folder's files.
absl::StatusOr<FinalNorm> LoadFinalNorm(const std::string& folder);

// Whether a tensor is called as a language model's final norm: "model.norm.weight", prefixed or
// not.
bool IsFinalNormName(std::string_view name);

}  // namespace assay

#endif  // ASSAY_STORAGE_VLLM_FINAL_NORM_H_
