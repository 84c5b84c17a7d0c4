// Finding how a weight of a Hugging Face checkpoint is packed: from the tensors that stand under
// its module's name, and the quantization_config for what they do not tell.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_PACKED_OPEN_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_PACKED_OPEN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/capture/weights/packed_tensor.h"
#include "worker/capture/weights/quant_config.h"

namespace assay {

// The checkpoint's tensor of this name, or null. The tensors outlive what is opened from them.
using TensorLookup = std::function<const TensorView*(std::string_view name)>;

struct PackedQuery {
  std::string weight;  // the name a plain tensor would have: "model.layers.0.mlp.down_proj.weight"
  uint64_t rows = 0;   // of the decoded matrix
  uint64_t cols = 0;
  std::string file;  // for messages
};

struct PackedWeight {
  std::shared_ptr<const PackedTensor> tensor;
  std::vector<std::string> used;  // names of its tensors
};

// For a weight that is not stored as one plain tensor of floats. Every shape, size and index is
// checked before anything is decoded. TENSOR_MISSING when nothing of it is there,
// UNSUPPORTED_TENSOR_TYPE for known formats that are not decoded, QUANTIZATION_INVALID when the
// tensors contradict each other or the configuration, GPTQ_ZERO_AMBIGUOUS.
absl::StatusOr<PackedWeight> OpenPackedWeight(const QuantConfig& config, const PackedQuery& query,
                                              const TensorLookup& find);

// Tensors beside a packed weight that take no part in it: shapes, and the scales of activations and
// of the key/value cache, which a capture with decoded weights does not quantize.
bool IsActivationScale(std::string_view name);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_PACKED_OPEN_H_
