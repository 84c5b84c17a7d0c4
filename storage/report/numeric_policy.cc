#include "storage/report/numeric_policy.h"

#include <algorithm>
#include <string>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr uint64_t kSummaryBytesMax = uint64_t{1} << 28;

}  // namespace

absl::Status CheckNumericPolicy(std::string_view policy) {
  const auto* end = kNumericPolicies.end();
  if (std::find(kNumericPolicies.begin(), end, policy) != end) return absl::OkStatus();
  std::string names;
  for (const std::string_view name : kNumericPolicies) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return InvalidError("POLICY_UNKNOWN", "numeric policy \"" + std::string(policy.substr(0, 80)) +
                                            "\" is not known; there are " + names);
}

absl::Status CheckOutPolicy(const std::string& out, std::string_view policy) {
  const std::string path = JoinPath(out, "summary.json");
  if (!FileExists(path)) return absl::OkStatus();
  const absl::StatusOr<Json> summary = ReadJsonFile(path, kSummaryBytesMax);
  if (!summary.ok() || !summary->is_object() || !summary->contains("candidates")) {
    return absl::OkStatus();
  }
  for (const Json& candidate : summary->at("candidates")) {
    if (!candidate.is_object() || !candidate.contains("policy")) continue;
    const Json& other = candidate.at("policy");
    if (!other.is_string() || other == std::string(policy)) continue;
    return PreconditionError("OUT_POLICY_DIFFERS",
                             path + ": " + out + " holds results of numeric policy " +
                                 other.get<std::string>() + ", not " + std::string(policy) +
                                 "; give another --out, or --policy " + other.get<std::string>());
  }
  return absl::OkStatus();
}

}  // namespace assay
