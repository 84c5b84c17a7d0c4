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

// POLICY_UNKNOWN, listing them.
absl::Status CheckNumericPolicy(std::string_view policy);

// OK unless `out` holds results of another policy: a command that goes on must not mix two.
// OUT_POLICY_DIFFERS names both. What is not readable there is no result.
absl::Status CheckOutPolicy(const std::string& out, std::string_view policy);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_NUMERIC_POLICY_H_
