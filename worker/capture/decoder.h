// The forward pass of a dense decoder, up to the hidden state after the final RMSNorm
// (arch-qwen-llama 1 to 4, float32 without its bf16 roundings), tensor-parallel in fixed pieces.
// What a family has beside the others (biases, per-head norms, windows, RoPE scaling) is in its
// ModelConfig and LayerWeights; there is one pass for all.
//
// The residual stream is cut by token: a rank owns a slice of a batch's rows, normalises it, and
// the normalised rows are gathered for the column-parallel products. Partial results of the
// row-parallel ones go to the rows' owners, who add them in piece order. Nothing a rank computes
// depends on how many ranks there are, only which part it computes.

#ifndef ASSAY_WORKER_CAPTURE_DECODER_H_
#define ASSAY_WORKER_CAPTURE_DECODER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/capture/engine.h"
#include "worker/capture/taps.h"
#include "worker/capture/weights/config.h"
#include "worker/collective/collective.h"

namespace assay::capture {

// Query positions whose scores are held at once; a function of position alone, so attention's
// products do not depend on batching.
inline constexpr int64_t kQueryBlock = 256;

class Decoder {
 public:
  // Decodes this rank's share of the weights. Sets nothing global. Errors: the checkpoint's,
  // KERNEL_NOT_INVARIANT for one of this model's inner sizes, CAPTURE_FAILED.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(const std::string& path,
                                                       const std::string& transform, int rank,
                                                       int size);
  virtual ~Decoder() = default;

  virtual const ModelConfig& config() const = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual uint64_t multiply_adds() const = 0;  // since Load
  virtual double product_seconds() const = 0;  // spent in matrix products since Load

  // Receives the rows [contexts * tokens, hidden] of a tapped point, on rank 0 only.
  using TapSink = std::function<absl::Status(const TapPoint&, std::span<const float>)>;

  // Runs contexts of one common length, tokens already checked. `hidden` becomes the bf16 bits
  // [contexts * tokens, hidden] after the final norm, the same on every rank.
  virtual absl::Status Run(std::span<const CaptureContext* const> contexts, Collective& collective,
                           const std::set<TapPoint>& taps, const TapSink& sink,
                           std::vector<uint16_t>* hidden) = 0;
};

std::string LibtorchVersion();
void SetComputeThreads(int threads);  // OpenMP of the calling thread, and libtorch

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_DECODER_H_
