#include "storage/report/numeric_policy.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"

namespace assay {
namespace {

constexpr uint64_t kSummaryBytesMax = uint64_t{1} << 28;

template <size_t N>
bool IsOneOf(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <size_t N>
std::string List(const std::array<std::string_view, N>& words) {
  std::string list;
  for (const std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return list;
}

std::string SummaryPath(const std::string& out) { return JoinPath(out, kSummaryFile); }

// The candidates of the summary in `out`; empty when nothing readable is there.
Json CandidatesIn(const std::string& out) {
  if (!FileExists(SummaryPath(out))) return Json::array();
  absl::StatusOr<Json> summary = ReadJsonFile(SummaryPath(out), kSummaryBytesMax);
  if (!summary.ok() || !summary->is_object() || !summary->contains("candidates")) {
    return Json::array();
  }
  return std::move(summary->at("candidates"));
}

// What one of `candidates` has as `member`, where that is not `wanted`.
std::optional<std::string> Other(const Json& candidates, const char* member,
                                 std::string_view wanted) {
  for (const Json& candidate : candidates) {
    if (!candidate.is_object() || !candidate.contains(member)) continue;
    const Json& other = candidate.at(member);
    if (other.is_string() && other != std::string(wanted)) return other.get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

absl::Status CheckNumericPolicy(std::string_view policy) {
  if (IsOneOf(policy, kNumericPolicies)) return absl::OkStatus();
  return InvalidError("POLICY_UNKNOWN", "numeric policy \"" + std::string(policy.substr(0, 80)) +
                                            "\" is not known; there are " + List(kNumericPolicies));
}

absl::Status CheckReplayBackend(std::string_view backend) {
  if (IsOneOf(backend, kReplayBackends)) return absl::OkStatus();
  return InvalidError("REPLAY_BACKEND_UNKNOWN", "replay backend \"" +
                                                    std::string(backend.substr(0, 80)) +
                                                    "\"; known: " + List(kReplayBackends));
}

absl::Status CheckOutPolicy(const std::string& out, std::string_view policy,
                            std::string_view backend) {
  const Json candidates = CandidatesIn(out);
  if (const auto other = Other(candidates, "policy", policy)) {
    return PreconditionError("OUT_POLICY_DIFFERS",
                             SummaryPath(out) + ": " + out + " holds results of numeric policy " +
                                 *other + ", not " + std::string(policy) +
                                 "; give another --out, or --policy " + *other);
  }
  if (backend == "auto") return absl::OkStatus();
  if (const auto other = Other(candidates, "backend", backend)) {
    return PreconditionError("OUT_BACKEND_DIFFERS",
                             SummaryPath(out) + ": " + out + " holds results of backend " + *other +
                                 ", not " + std::string(backend) +
                                 "; give another --out, or --backend " + *other);
  }
  return absl::OkStatus();
}

absl::Status CheckOutSuite(const std::string& out, std::string_view suite_token_sha256) {
  const auto other = Other(CandidatesIn(out), "suite_token_sha256", suite_token_sha256);
  if (!other) return absl::OkStatus();
  return PreconditionError("OUT_SUITE_DIFFERS", SummaryPath(out) + ": " + out +
                                                    " holds results over another suite (" + *other +
                                                    "); give another --out");
}

}  // namespace assay
