#include "storage/seal/verify_summary.h"

#include <vector>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/json_compare.h"
#include "storage/report/report.h"
#include "storage/report/summary.h"
#include "storage/seal/receipt.h"

namespace assay {
namespace {

absl::StatusOr<SummaryCandidate> ReadCandidate(const std::string& out, const Json& entry,
                                               const std::string& where) {
  const JsonFields fields(entry, where);
  SummaryCandidate candidate;
  ASSAY_ASSIGN_OR_RETURN(candidate.label, fields.String("label"));
  ASSAY_RETURN_IF_ERROR(CheckLabel(candidate.label));
  if (fields.Has("failed")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* failed, fields.Object("failed"));
    const JsonFields inner(*failed, where + ": failed");
    ASSAY_ASSIGN_OR_RETURN(candidate.failed_reason, inner.String("reason"));
    ASSAY_ASSIGN_OR_RETURN(candidate.failed_message, inner.String("message"));
    return candidate;
  }
  const std::string folder = JoinPath(out, candidate.label);
  const std::string report = JoinPath(folder, kReportFile);
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(report, kReportBytesMax));
  ASSAY_ASSIGN_OR_RETURN(candidate.report, ParseReport(bytes, report));
  candidate.report_sha256 = Sha256Hex(bytes);
  const std::string receipt = JoinPath(folder, kReceiptFile);
  if (FileExists(receipt)) {
    ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(receipt, kReceiptBytesMax));
    ASSAY_ASSIGN_OR_RETURN(candidate.receipt_id, ReceiptId(text));
  }
  return candidate;
}

struct Rebuilt {
  std::vector<SummaryCandidate> candidates;
  Summary summary;
};

// What the reports and receipts say now of the candidates that `summary` lists.
absl::StatusOr<Rebuilt> Rebuild(const std::string& out, const Json& summary,
                                const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const Json* entries, JsonFields(summary, path).Array("candidates"));
  Rebuilt rebuilt;
  for (const Json& entry : *entries) {
    ASSAY_ASSIGN_OR_RETURN(SummaryCandidate candidate, ReadCandidate(out, entry, path));
    rebuilt.candidates.push_back(std::move(candidate));
  }
  SummaryOptions options;
  if (summary.value("across_policies", Json(false)) == Json(true)) {
    options.across = AcrossPolicies::kAllow;
  }
  const Json versus = summary.value("versus", Json());
  if (versus.is_string()) options.versus = versus.get<std::string>();
  ASSAY_ASSIGN_OR_RETURN(rebuilt.summary, BuildSummary(rebuilt.candidates, options));
  return rebuilt;
}

bool IsOfOldVersion(const Json& summary) {
  return summary.is_object() &&
         summary.value("schema", Json()) == Json(std::string(kSummarySchemaOld));
}

// `value` without the members that `like` lacks, at every depth: what an earlier version wrote.
Json WithMembersOf(const Json& value, const Json& like) {
  if (value.is_array() && like.is_array() && value.size() == like.size()) {
    Json out = Json::array();
    for (size_t i = 0; i < value.size(); ++i) out.push_back(WithMembersOf(value[i], like[i]));
    return out;
  }
  if (!value.is_object() || !like.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, member] : value.items()) {
    if (like.contains(key)) out[key] = WithMembersOf(member, like.at(key));
  }
  return out;
}

Json AsOldVersion(const Json& now, const Json& summary) {
  Json out = WithMembersOf(now, summary);
  out["schema"] = std::string(kSummarySchemaOld);
  return out;
}

absl::Status CompareJson(const Json& expected, const Json& summary, const std::string& path) {
  const std::string difference = FirstDifference(expected, summary);
  if (difference.empty()) return absl::OkStatus();
  return DataLossError("SUMMARY_MISMATCH", path + ": " + difference +
                                               " (from the reports against the summary); it was "
                                               "changed, rely on the reports");
}

void CompareText(const std::string& out, std::string_view name, const std::string& expected,
                 GateList* gates) {
  const std::string path = JoinPath(out, name), gate(name);
  if (!FileExists(path)) {
    gates->Skip(out, gate, "there is no " + gate);
    return;
  }
  const absl::StatusOr<std::string> bytes = ReadFile(path, kReportBytesMax);
  absl::Status status = bytes.status();
  if (bytes.ok() && *bytes != expected) {
    status = DataLossError("SUMMARY_MISMATCH",
                           path +
                               ": is not what this version of assay writes for these reports; it "
                               "was changed, or written by another version: rely on the reports");
  }
  gates->Check(out, gate, status, path + " is what the reports give, byte for byte");
}

}  // namespace

void CheckSummaryFiles(const std::string& out, GateList* gates) {
  const std::string path = JoinPath(out, kSummaryFile);
  if (!FileExists(path)) {
    gates->Skip(out, "summary", "there is no summary.json; the reports are checked without it");
    return;
  }
  const absl::StatusOr<Json> summary = ReadJsonFile(path, kReportBytesMax);
  const absl::StatusOr<Rebuilt> rebuilt =
      summary.ok() ? Rebuild(out, *summary, path) : summary.status();
  const bool old = summary.ok() && IsOfOldVersion(*summary);
  absl::Status status = rebuilt.status();
  if (rebuilt.ok()) {
    const Json& now = rebuilt->summary.json;
    status = CompareJson(old ? AsOldVersion(now, *summary) : now, *summary, path);
  }
  if (!gates->Check(out, "summary", status, path + " says what the reports say")) return;
  if (old) {
    for (const std::string_view name : kSummaryTexts) {
      gates->Skip(out, std::string(name),
                  std::string(name) + " was written by an earlier version of assay (" +
                      std::string(kSummarySchemaOld) + "); rely on summary.json");
    }
    return;
  }
  const std::string texts[] = {rebuilt->summary.csv, rebuilt->summary.md,
                               VerifyText(rebuilt->candidates)};
  for (size_t i = 0; i < kSummaryTexts.size(); ++i) {
    CompareText(out, kSummaryTexts[i], texts[i], gates);
  }
}

}  // namespace assay
