// The metric fixtures against a device, without GoogleTest: for host tests and for the program that
// runs on GPUs.

#ifndef ASSAY_WORKER_REPLAY_CUDA_CASE_CHECK_H_
#define ASSAY_WORKER_REPLAY_CUDA_CASE_CHECK_H_

#include <string>
#include <vector>

#include "storage/base/json.h"
#include "worker/replay/cuda/device.h"

namespace assay {

// Runs a plan as cuda-bf16 on one rank per device, threads of this process that exchange through
// memory. All ranks must give the same bytes, or the same status.
absl::StatusOr<ReplayResult> RunOnDevices(ReplayPlan plan,
                                          const std::vector<ReplayDevice*>& devices);

// What is wrong with the answer or refusal to a case of tests/data/metric/index.json (policy
// exact), or
// "". `worst` grows to the largest error relative to max(|value|, 1e-6) (delta_p: 1e-3) where
// logits are exact.
std::string CheckCase(const Json& test_case, const absl::StatusOr<ReplayResult>& result,
                      double* worst);

struct CaseCounts {
  int answers = 0;   // compared with values
  int refusals = 0;  // the expected reason, operand, position and column
  int named = 0;     // BACKEND_UNAVAILABLE: operands of 2^60 or more, or a policy that GPUs lack
  double worst = 0;
  std::vector<std::string> failures;  // "case: what"
};
CaseCounts CheckAllCases(const std::vector<ReplayDevice*>& devices);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_CUDA_CASE_CHECK_H_
