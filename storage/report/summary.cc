#include "storage/report/summary.h"

#include <set>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/comparability.h"
#include "storage/report/head_summary.h"
#include "storage/report/pairing.h"
#include "storage/report/report.h"
#include "storage/report/summary_text.h"
#include "storage/report/versus.h"

namespace assay {
namespace {

absl::Status Invalid(const std::string& what) {
  return InvalidError("SUMMARY_INVALID", "summary: " + what);
}

Json FilesJson(const SummaryCandidate& candidate) {
  Json json;
  json["report"] = JoinPath(candidate.label, kReportFile);
  json["execution"] = JoinPath(candidate.label, kExecutionFile);
  json["receipt"] =
      candidate.receipt_id.empty() ? Json(nullptr) : Json(JoinPath(candidate.label, kReceiptFile));
  json["positions"] = Json::object();
  for (const auto& [head, entry] : candidate.report.at("heads").items()) {
    json["positions"][head] = JoinPath(JoinPath(candidate.label, kPositionsFolder), head);
  }
  return json;
}

Json CandidateJson(const SummaryCandidate& candidate) {
  Json json;
  json["label"] = candidate.label;
  if (!candidate.failed_reason.empty()) {
    json["failed"] = {{"reason", candidate.failed_reason}, {"message", candidate.failed_message}};
    return json;
  }
  const Json& report = candidate.report;
  json["failed"] = nullptr;
  json["report_sha256"] = candidate.report_sha256;
  json["sealed"] = !candidate.receipt_id.empty();
  json["receipt_id"] = candidate.receipt_id.empty() ? Json(nullptr) : Json(candidate.receipt_id);
  json["files"] = FilesJson(candidate);
  json["suite_token_sha256"] = report.at("suite").at("suite_token_sha256");
  json["contexts"] = report.at("coverage").at("contexts");
  json["positions"] = report.at("coverage").at("positions");
  json["policy"] = report.at("numeric").at("policy");
  json["backend"] = report.at("numeric").at("backend");
  json["sizes"] = report.at("candidate").at("sizes");
  json["reference_sizes"] = report.at("reference").at("sizes");
  json["noise_floor"] = {{"byte_identical", report.at("noise_floor").at("byte_identical")},
                         {"mean_kl_ref_cand", report.at("noise_floor").at("mean_kl_ref_cand")}};
  json["head_difference"] = report.at("head_difference");
  json["disclosures"] = report.at("disclosures");
  json["heads"] = Json::object();
  for (const auto& [head, entry] : report.at("heads").items()) {
    json["heads"][head] = HeadSummaryJson(report, head);
  }
  return json;
}

// Pairs of candidates that both have `head`: what a reader of all pairs looks at together.
uint64_t PairsOf(const std::vector<SummaryCandidate>& candidates, const std::string& head) {
  uint64_t with_head = 0;
  for (const SummaryCandidate& c : candidates) {
    with_head += c.failed_reason.empty() && c.report.at("heads").contains(head);
  }
  return with_head < 2 ? 1 : with_head * (with_head - 1) / 2;
}

absl::StatusOr<Json> PairsJson(const std::vector<SummaryCandidate>& candidates,
                               AcrossPolicies across) {
  Json pairs = Json::array();
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (size_t j = i + 1; j < candidates.size(); ++j) {
      const SummaryCandidate& a = candidates[i];
      const SummaryCandidate& b = candidates[j];
      if (!a.failed_reason.empty() || !b.failed_reason.empty()) continue;
      for (const std::string& head : {std::string(kHeadOwn), std::string(kHeadShared)}) {
        if (!a.report.at("heads").contains(head) && !b.report.at("heads").contains(head)) continue;
        Json pair = {{"a", a.label}, {"b", b.label}, {"head", head}};
        const Comparability found = CompareReports(a.report, b.report, head);
        const bool compare =
            found.comparable() || (across == AcrossPolicies::kAllow && found.across_policies());
        pair["not_comparable"] = compare ? Json(nullptr) : Json(found.Text());
        pair["comparison"] = nullptr;
        if (compare) {
          ASSAY_ASSIGN_OR_RETURN(pair["comparison"], PairReports(a.report, b.report, head, across,
                                                                 PairsOf(candidates, head)));
        }
        pairs.push_back(std::move(pair));
      }
    }
  }
  return pairs;
}

absl::StatusOr<Summary> Build(const std::vector<SummaryCandidate>& candidates,
                              const SummaryOptions& options) {
  Summary out;
  std::set<std::string> labels;
  out.json["schema"] = std::string(kSummarySchema);
  out.json["candidates"] = Json::array();
  for (const SummaryCandidate& candidate : candidates) {
    ASSAY_RETURN_IF_ERROR(CheckLabel(candidate.label));
    if (!labels.insert(candidate.label).second) {
      return Invalid("label " + candidate.label + " is used twice");
    }
    if (candidate.failed_reason.empty() && candidate.report.value("schema", "") != kReportSchema) {
      return Invalid(candidate.label + ": the report is not " + std::string(kReportSchema));
    }
    out.json["candidates"].push_back(CandidateJson(candidate));
  }
  if (options.across == AcrossPolicies::kAllow) out.json["across_policies"] = true;
  ASSAY_RETURN_IF_ERROR(AddVersus(candidates, options, &out.json));
  ASSAY_ASSIGN_OR_RETURN(out.json["pairs"], PairsJson(candidates, options.across));
  out.table = SummaryTable(out.json);
  out.md = SummaryMarkdown(out.json);
  out.csv = SummaryCsv(out.json);
  return out;
}

}  // namespace

absl::StatusOr<Summary> BuildSummary(const std::vector<SummaryCandidate>& candidates,
                                     const SummaryOptions& options) {
  try {
    return Build(candidates, options);
  } catch (const nlohmann::json::exception& error) {
    return Invalid(std::string("a report lacks a field: ") + error.what());
  }
}

absl::Status WriteSummaryFiles(const std::string& out, const Summary& summary,
                               const std::vector<SummaryCandidate>& candidates,
                               const std::string& public_key_pem) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(out));
  bool sealed = false;
  for (const SummaryCandidate& candidate : candidates) sealed |= !candidate.receipt_id.empty();
  const std::string key = JoinPath(out, kPublicKeyFile), verify = JoinPath(out, kVerifyTextFile);
  if (sealed) {
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(key, public_key_pem));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(verify, VerifyText(candidates)));
  } else {
    // Those of an earlier, sealed run would vouch for results that nobody signed.
    ASSAY_RETURN_IF_ERROR(RemoveTree(key));
    ASSAY_RETURN_IF_ERROR(RemoveTree(verify));
  }
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(out, kSummaryCsvFile), summary.csv));
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(out, kSummaryMarkdownFile), summary.md));
  return WriteFileAtomic(JoinPath(out, kSummaryFile), PythonPrettyJson(summary.json) + "\n");
}

}  // namespace assay
