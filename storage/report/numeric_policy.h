// The numeric policies by name: which arithmetic a comparison uses. docs/metric.md defines them.

#ifndef ASSAY_STORAGE_REPORT_NUMERIC_POLICY_H_
#define ASSAY_STORAGE_REPORT_NUMERIC_POLICY_H_

#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace assay {

// Those that a run or a replay may ask for.
inline constexpr std::array<std::string_view, 3> kNumericPolicies = {"exact", "fp64-audit",
                                                                     "torch-bf16"};

// Replay backends that a run or a replay may ask for; docs/metric.md, docs/gpu.md.
inline constexpr std::array<std::string_view, 3> kReplayBackends = {"cpu-bf16", "cpu-f32",
                                                                    "cuda-bf16"};

// POLICY_UNKNOWN, listing them.
absl::Status CheckNumericPolicy(std::string_view policy);
// REPLAY_BACKEND_UNKNOWN, listing them.
absl::Status CheckReplayBackend(std::string_view backend);

// OK unless `out` holds results of another policy, or of another backend than the one asked for
// ("auto" asks for none): a command that goes on must not mix two. OUT_POLICY_DIFFERS,
// OUT_BACKEND_DIFFERS name both. What is not readable there is no result.
absl::Status CheckOutPolicy(const std::string& out, std::string_view policy,
                            std::string_view backend = "auto");

// The same for the suite, by its token digest: OUT_SUITE_DIFFERS.
absl::Status CheckOutSuite(const std::string& out, std::string_view suite_token_sha256);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_NUMERIC_POLICY_H_
