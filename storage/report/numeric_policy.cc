#include "storage/report/numeric_policy.h"

#include <algorithm>
#include <optional>
#include <string>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr uint64_t kSummaryBytesMax = uint64_t{1} << 28;

std::string SummaryPath(const std::string& out) { return JoinPath(out, "summary.json"); }

// What a candidate in `out` has as `member`, where that is not `wanted`.
std::optional<std::string> OtherInOut(const std::string& out, const char* member,
                                      std::string_view wanted) {
  if (!FileExists(SummaryPath(out))) return std::nullopt;
  const absl::StatusOr<Json> summary = ReadJsonFile(SummaryPath(out), kSummaryBytesMax);
  if (!summary.ok() || !summary->is_object() || !summary->contains("candidates")) {
    return std::nullopt;
  }
  for (const Json& candidate : summary->at("candidates")) {
    if (!candidate.is_object() || !candidate.contains(member)) continue;
    const Json& other = candidate.at(member);
    if (other.is_string() && other != std::string(wanted)) return other.get<std::string>();
  }
  return std::nullopt;
}

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

absl::Status CheckOutPolicy(const std::string& out, std::string_view policy,
                            std::string_view backend) {
  if (const auto other = OtherInOut(out, "policy", policy)) {
    return PreconditionError("OUT_POLICY_DIFFERS",
                             SummaryPath(out) + ": " + out + " holds results of numeric policy " +
                                 *other + ", not " + std::string(policy) +
                                 "; give another --out, or --policy " + *other);
  }
  if (backend == "auto") return absl::OkStatus();
  if (const auto other = OtherInOut(out, "backend", backend)) {
    return PreconditionError("OUT_BACKEND_DIFFERS",
                             SummaryPath(out) + ": " + out + " holds results of backend " + *other +
                                 ", not " + std::string(backend) +
                                 "; give another --out, or --backend " + *other);
  }
  return absl::OkStatus();
}

absl::Status CheckOutSuite(const std::string& out, std::string_view suite_token_sha256) {
  const auto other = OtherInOut(out, "suite_token_sha256", suite_token_sha256);
  if (!other) return absl::OkStatus();
  return PreconditionError("OUT_SUITE_DIFFERS", SummaryPath(out) + ": " + out +
                                                    " holds results over another suite (" + *other +
                                                    "); give another --out");
}

}  // namespace assay
