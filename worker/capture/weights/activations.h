// Whether a checkpoint was made to be served with quantized activations.
//
// The native engine computes with the decoded weights and float32 activations, so for such a
// checkpoint it measures the weights alone. Reports say so.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_ACTIVATIONS_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_ACTIVATIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// What quantization_config of a config.json says of the inputs of linear layers, for people:
// "8-bit float", "4-bit float, groups of 16"; "" when they stay as they are, or it does not say.
std::string ActivationScheme(const Json& config);

// The same of a model on disk; "" for a GGUF file, which says nothing of activations.
absl::StatusOr<std::string> ActivationSchemeOfModel(const std::string& model_path);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_ACTIVATIONS_H_
