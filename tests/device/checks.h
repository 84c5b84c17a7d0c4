// What assay-device-test asks of a GPU. Each returns a JSON object with "failures" (a list of
// sentences) and what it counted.

#ifndef ASSAY_TESTS_DEVICE_CHECKS_H_
#define ASSAY_TESTS_DEVICE_CHECKS_H_

#include "storage/base/json.h"
#include "worker/replay/cuda/device.h"

namespace assay {

// The metric fixtures on one rank, and on four ranks that share the device.
Json CheckGolden();
// Tiles, units and 1 to 8 ranks on one device, which exchange through host memory: the same bytes.
// The passes: the same bits as the host's execution of them, from the same products. The products:
// near a host's fp32 sums.
Json CheckInvariance();
// What must not be computed is refused by name.
Json CheckRefusals();

struct BenchShape {
  uint64_t vocab = 248'320, hidden = 5'120, positions = 2'048;
  uint64_t contexts = 32;     // run
  uint64_t report_for = 512;  // extrapolated to
};
// Seconds of a replay and of its parts.
Json RunBench(const BenchShape& shape);

// The self-test, whose digest is part of the kernel identity.
Json RunSelfTestOnDevice(ReplayDevice& device);

}  // namespace assay

#endif  // ASSAY_TESTS_DEVICE_CHECKS_H_
