#include "storage/report/versus.h"

#include <algorithm>
#include <optional>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/comparability.h"
#include "storage/report/pairing.h"
#include "storage/report/report.h"

namespace assay {
namespace {

bool HasHead(const SummaryCandidate& candidate, const std::string& head) {
  return candidate.failed_reason.empty() && candidate.report.at("heads").contains(head);
}

std::optional<size_t> BestOf(const std::vector<SummaryCandidate>& candidates,
                             const std::string& head) {
  std::optional<size_t> best;
  double lowest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!HasHead(candidates[i], head)) continue;
    const Json& mean = candidates[i]
                           .report.at("heads")
                           .at(head)
                           .at("statistics")
                           .at("kl_ref_cand")
                           .at("mean")
                           .at("value");
    if (mean.is_null() || (best && mean.get<double>() >= lowest)) continue;
    best = i;
    lowest = mean.get<double>();
  }
  return best;
}

std::optional<size_t> Baseline(const std::vector<SummaryCandidate>& candidates,
                               const std::string& head, const std::string& versus) {
  if (versus.empty()) return BestOf(candidates, head);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].label == versus && HasHead(candidates[i], head)) return i;
  }
  return std::nullopt;
}

absl::StatusOr<Json> VersusJson(const SummaryCandidate& candidate, const SummaryCandidate& baseline,
                                const std::string& head, AcrossPolicies across,
                                uint64_t comparisons) {
  const Comparability found = CompareReports(candidate.report, baseline.report, head);
  const bool compare =
      found.comparable() || (across == AcrossPolicies::kAllow && found.across_policies());
  Json json;
  json["label"] = baseline.label;
  json["not_comparable"] = compare ? Json(nullptr) : Json(found.Text());
  json["comparison"] = nullptr;
  if (compare) {
    ASSAY_ASSIGN_OR_RETURN(json["comparison"], PairReports(candidate.report, baseline.report, head,
                                                           across, comparisons));
  }
  return json;
}

}  // namespace

absl::Status AddVersus(const std::vector<SummaryCandidate>& candidates,
                       const SummaryOptions& options, Json* summary) {
  if (!options.versus.empty() &&
      std::none_of(candidates.begin(), candidates.end(),
                   [&](const auto& c) { return c.label == options.versus; })) {
    return InvalidError("LABEL_UNKNOWN",
                        "--versus: no candidate is called " + options.versus + "; give a label");
  }
  (*summary)["versus"] = options.versus.empty() ? Json(nullptr) : Json(options.versus);
  (*summary)["baselines"] = Json::object();
  for (const std::string& head : {std::string(kHeadOwn), std::string(kHeadShared)}) {
    const auto with_head = static_cast<uint64_t>(std::count_if(
        candidates.begin(), candidates.end(), [&](const auto& c) { return HasHead(c, head); }));
    if (with_head == 0) continue;
    const std::optional<size_t> baseline = Baseline(candidates, head, options.versus);
    (*summary)["baselines"][head] = baseline ? Json(candidates[*baseline].label) : Json(nullptr);
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!HasHead(candidates[i], head)) continue;
      Json& versus = (*summary)["candidates"][i]["heads"][head]["versus"];
      versus = nullptr;
      if (!baseline || i == *baseline) continue;
      ASSAY_ASSIGN_OR_RETURN(versus, VersusJson(candidates[i], candidates[*baseline], head,
                                                options.across, with_head - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace assay
