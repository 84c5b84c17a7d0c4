// The RoPE part of a Hugging Face config.json, in the spellings of versions 4 and 5.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_ROPE_HF_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_ROPE_HF_H_

#include "absl/status/status.h"
#include "storage/base/json_fields.h"
#include "worker/capture/weights/config.h"

namespace assay {

// Fills rope_theta and rope; `out.max_positions` is read before. Keys of rope_parameters that its
// type has no use for are ignored. UNSUPPORTED_MODEL_FEATURE for a rope type that is not built,
// FIELD_INVALID for keys that contradict each other.
absl::Status ReadHfRope(const JsonFields& fields, const Json& config, ModelConfig& out);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_ROPE_HF_H_
