// The engine behind assay_capture_create, for callers inside the library: tests and benches.

#ifndef ASSAY_WORKER_CAPTURE_NATIVE_ENGINE_H_
#define ASSAY_WORKER_CAPTURE_NATIVE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/capture/decoder.h"
#include "worker/capture/engine.h"
#include "worker/capture/request.h"
#include "worker/capture/taps.h"
#include "worker/collective/collective.h"

namespace assay::capture {

class NativeEngine final : public CaptureEngine {
 public:
  // `batch_tokens`: token rows computed at once; any value gives the same bits.
  explicit NativeEngine(size_t batch_tokens = kBatchTokens) : batch_tokens_(batch_tokens) {}

  Json Identity() override;
  absl::StatusOr<std::vector<CaptureOutput>> Capture(
      const CaptureRequest& request, Collective& collective,
      const std::function<bool(uint64_t, uint64_t)>& progress, CaptureCounters* counters) override;

  // Wall time inside matrix products since the current model was loaded; 0 without a model.
  double product_seconds() const { return model_ == nullptr ? 0 : model_->product_seconds(); }

 private:
  using ModelKey = std::tuple<std::string, std::string, std::string, int, int>;

  absl::Status SelfTest();
  absl::Status EnsureModel(const CaptureRequest& request, int rank, int size);
  absl::StatusOr<std::vector<CaptureOutput>> RunRequest(
      const CaptureRequest& request, Collective& collective,
      const std::function<bool(uint64_t, uint64_t)>& progress, CaptureCounters* counters);
  absl::Status RunBatch(const CaptureRequest& request, const std::vector<size_t>& batch,
                        Collective& collective, const std::set<TapPoint>& taps,
                        std::vector<CaptureOutput>& outputs);

  size_t batch_tokens_;
  std::string self_test_;  // "" until it has passed
  std::unique_ptr<Decoder> model_;
  ModelKey model_key_;
};

// `own` when it is an error, GROUP_RANK_FAILED or CANCELLED when another rank reports one. All
// ranks call it together.
absl::Status Agree(Collective& collective, const absl::Status& own);

// NON_FINITE_HIDDEN naming context, row and column of the first bf16 value that is not finite.
absl::Status CheckFinite(std::span<const uint16_t> rows, uint64_t width, int64_t context);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_NATIVE_ENGINE_H_
