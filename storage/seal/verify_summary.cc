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

absl::Status Compare(const std::string& out, const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const Json summary, ReadJsonFile(path, kReportBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const Json* entries, JsonFields(summary, path).Array("candidates"));
  std::vector<SummaryCandidate> candidates;
  for (const Json& entry : *entries) {
    ASSAY_ASSIGN_OR_RETURN(SummaryCandidate candidate, ReadCandidate(out, entry, path));
    candidates.push_back(std::move(candidate));
  }
  ASSAY_ASSIGN_OR_RETURN(const Summary expected, BuildSummary(candidates));
  const std::string difference = FirstDifference(expected.json, summary);
  if (difference.empty()) return absl::OkStatus();
  return DataLossError("SUMMARY_MISMATCH", path + ": " + difference +
                                               " (from the reports against the summary); it was "
                                               "changed, rely on the reports");
}

}  // namespace

void CheckSummaryFile(const std::string& out, GateList* gates) {
  const std::string path = JoinPath(out, "summary.json");
  if (!FileExists(path)) {
    gates->Skip(out, "summary", "there is no summary.json");
    return;
  }
  gates->Check(out, "summary", Compare(out, path), path + " says what the reports say");
}

}  // namespace assay
