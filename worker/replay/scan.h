// What is looked at before the first product: largest absolute values and the first non-finite
// element.

#ifndef ASSAY_WORKER_REPLAY_SCAN_H_
#define ASSAY_WORKER_REPLAY_SCAN_H_

#include <cstdint>
#include <span>

namespace assay {

struct ScanResult {
  double max_abs = 0;       // over finite elements
  int64_t non_finite = -1;  // first element that is NaN or infinite
};

// `bytes` holds bf16 values and may be unaligned.
ScanResult ScanBf16(std::span<const uint8_t> bytes);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_SCAN_H_
