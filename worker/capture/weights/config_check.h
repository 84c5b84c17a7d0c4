// What both sources of a ModelConfig check alike.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_CHECK_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_CHECK_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "worker/capture/weights/config.h"
#include "worker/capture/weights/families.h"

namespace assay {

// UNKNOWN_ARCHITECTURE: names the architecture found, those supported and what to do instead.
absl::Status UnknownArchitecture(std::string_view where, std::string_view found);

// UNSUPPORTED_MODEL_FEATURE: `what` is not built.
absl::Status UnsupportedFeature(std::string_view where, std::string_view what);

// What the family alone decides.
void ApplyFamily(const ModelFamily& family, ModelConfig& config);

// FIELD_INVALID unless sizes fit each other, eps and theta are positive and rope fields are sound.
absl::Status CheckConfig(const ModelConfig& config, std::string_view where);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_CONFIG_CHECK_H_
