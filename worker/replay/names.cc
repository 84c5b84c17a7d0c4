// Names of policies and backends.

#include <string>

#include "storage/base/status.h"
#include "worker/replay/replay.h"

namespace assay {

std::string_view ReplayPolicyName(ReplayPolicy policy) {
  switch (policy) {
    case ReplayPolicy::kExact:
      return "exact";
    case ReplayPolicy::kFp64Audit:
      return "fp64-audit";
    case ReplayPolicy::kTorchBf16:
      return "torch-bf16";
  }
  return "";
}

absl::StatusOr<ReplayPolicy> ParseReplayPolicy(std::string_view name) {
  for (const ReplayPolicy p :
       {ReplayPolicy::kExact, ReplayPolicy::kFp64Audit, ReplayPolicy::kTorchBf16}) {
    if (name == ReplayPolicyName(p)) return p;
  }
  return InvalidError("REPLAY_POLICY_UNKNOWN",
                      "numeric policy \"" + std::string(name) +
                          "\" is not known; there are exact, fp64-audit and torch-bf16");
}

std::string_view ReplayBackendName(ReplayBackend backend) {
  switch (backend) {
    case ReplayBackend::kAuto:
      return "auto";
    case ReplayBackend::kCpuBf16:
      return "cpu-bf16";
    case ReplayBackend::kCpuF32:
      return "cpu-f32";
    case ReplayBackend::kCudaBf16:
      return "cuda-bf16";
  }
  return "";
}

absl::StatusOr<ReplayBackend> ParseReplayBackend(std::string_view name) {
  for (const ReplayBackend b : {ReplayBackend::kAuto, ReplayBackend::kCpuBf16,
                                ReplayBackend::kCpuF32, ReplayBackend::kCudaBf16}) {
    if (name == ReplayBackendName(b)) return b;
  }
  return InvalidError("REPLAY_BACKEND_UNKNOWN",
                      "replay backend \"" + std::string(name) +
                          "\" is not known; there are auto, cpu-bf16, cpu-f32 and cuda-bf16");
}

}  // namespace assay
