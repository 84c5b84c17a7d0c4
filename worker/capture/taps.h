// The named points of the forward pass that a capture can store.

#ifndef ASSAY_WORKER_CAPTURE_TAPS_H_
#define ASSAY_WORKER_CAPTURE_TAPS_H_

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay::capture {

enum class TapKind { kEmbedding, kAttention, kMlp, kResidual, kFinalNorm };

struct TapPoint {
  TapKind kind = TapKind::kEmbedding;
  int64_t layer = 0;  // kAttention, kMlp, kResidual; else 0
  auto operator<=>(const TapPoint&) const = default;
};

// "embedding", "layers.N.attn", "layers.N.mlp", "layers.N.residual", "final_norm". UNKNOWN_TAP says
// what there is.
absl::StatusOr<TapPoint> ParseTap(std::string_view name, int64_t layers);
std::string TapName(const TapPoint& point);

// "tap_layers.3.attn_0007.safetensors"
std::string TapFileName(const TapPoint& point, int64_t index);

// A safetensors file with the F32 tensor "tap" [rows, width] and the metadata "tap" (the point's
// name) and "context" (the index).
std::string BuildTapFile(const TapPoint& point, int64_t index, std::span<const float> values,
                         uint64_t rows, uint64_t width);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_TAPS_H_
