// Proof at start-up of what bit-invariance rests on.

#ifndef ASSAY_WORKER_CAPTURE_SELF_TEST_H_
#define ASSAY_WORKER_CAPTURE_SELF_TEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::capture {

// Computes a product with inner size `k` from fixed inputs whole, then cut by rows, by columns
// (transposed weights), in batches and on 1, 2 and 3 threads; every element must come out the same
// bits. Covers both weight layouts. KERNEL_NOT_INVARIANT names the cut that differs. Restores the
// caller's thread count.
absl::Status CheckProductInvariance(int64_t k);

// CheckProductInvariance for a few sizes, then the SHA-256 over the bits of those products and of
// the element-wise kernels: it changes when a library or an instruction set gives other bits.
absl::StatusOr<std::string> SelfTestDigest();

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_SELF_TEST_H_
