// Shared by the capture tests: fixtures, groups of ranks as threads, and reading of results.

#ifndef ASSAY_WORKER_CAPTURE_CAPTURE_TEST_UTIL_H_
#define ASSAY_WORKER_CAPTURE_CAPTURE_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/capture/engine.h"

namespace assay::capture {

// tests/data/<path> of the source tree.
std::string Fixture(std::string_view path);

// A fresh empty folder, removed at exit of the process.
std::string TempFolder();

// The model file named by ASSAY_SMOLLM2_GGUF, or "".
std::string SmolLm2Path();

struct GroupResult {
  std::vector<CaptureOutput> outputs;     // rank 0's
  std::vector<CaptureCounters> counters;  // per rank
};

// Runs `request` on `size` ranks, each a thread with an engine of its own. The first error of any
// rank is returned, in rank order.
absl::StatusOr<GroupResult> CaptureWith(const CaptureRequest& request, int size,
                                        size_t batch_tokens);

std::string FileBytes(const std::string& path);  // fails the test when unreadable

// A tensor's values; the dtype must be the named one.
std::vector<float> F32Tensor(const std::string& path, std::string_view name);
std::vector<double> F64Tensor(const std::string& path, std::string_view name);
std::vector<uint16_t> Bf16Tensor(const std::string& path, std::string_view name);
std::vector<int32_t> TokenTensor(const std::string& path, std::string_view name);  // I64

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_CAPTURE_TEST_UTIL_H_
