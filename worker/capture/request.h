// Checking a capture request and cutting it into batches.

#ifndef ASSAY_WORKER_CAPTURE_REQUEST_H_
#define ASSAY_WORKER_CAPTURE_REQUEST_H_

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/capture/engine.h"
#include "worker/capture/taps.h"
#include "worker/capture/weights/config.h"

namespace assay::capture {

// Limits of a request; beyond them CAPTURE_LIMIT.
inline constexpr int kCaptureThreadsMax = 1024;
inline constexpr size_t kCaptureContextsMax = size_t{1} << 20;
inline constexpr size_t kContextTokensMax = size_t{1} << 16;
inline constexpr size_t kCaptureTapsMax = 4096;

// Token rows of a batch, unless one context alone is longer.
inline constexpr size_t kBatchTokens = 512;

// Checks that need no model: counts, threads, indices (unique, not negative), lengths.
absl::Status CheckRequest(const CaptureRequest& request);

// Every token inside the vocabulary, or TOKEN_OUT_OF_RANGE naming context and position.
absl::Status CheckTokens(const CaptureRequest& request, int64_t vocab);

absl::StatusOr<std::set<TapPoint>> ParseTaps(const CaptureRequest& request, int64_t layers);

// Positions in `contexts`, grouped so that a batch has one length and at most `tokens` rows. Which
// contexts share a batch does not change their bits.
std::vector<std::vector<size_t>> CutBatches(std::span<const CaptureContext> contexts,
                                            size_t tokens);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_REQUEST_H_
