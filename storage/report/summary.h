// What a person looks at after a run: the table on the terminal, and summary.json, summary.csv,
// summary.md, VERIFY.md beside the candidates' folders.
//
// Everything is taken from the reports; only labels, file names and receipt ids come from outside.

#ifndef ASSAY_STORAGE_REPORT_SUMMARY_H_
#define ASSAY_STORAGE_REPORT_SUMMARY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/report/pairing.h"

namespace assay {

inline constexpr std::string_view kSummarySchema = "assay-summary/1";

struct SummaryCandidate {
  std::string label;          // folder name under --out
  Json report;                // assay-report/1; null when the candidate failed
  std::string report_sha256;  // of report.json
  std::string receipt_id;     // "" = UNSEALED
  // When the candidate failed: stable reason and sentence; both empty otherwise.
  std::string failed_reason, failed_message;
};

struct Summary {
  Json json;          // holds everything that the table shows
  std::string csv;    // one line per candidate and head, header line first (RFC 4180)
  std::string md;     // the table as Markdown
  std::string table;  // plain text for a terminal, <= 100 columns for two candidates
};

// Candidates in the order given. SUMMARY_INVALID when a report is not assay-report/1 or two labels
// are equal. Pairs of candidates are compared only when their reports are comparable
// (comparability.h); a pair that is not says why.
absl::StatusOr<Summary> BuildSummary(const std::vector<SummaryCandidate>& candidates,
                                     AcrossPolicies across = AcrossPolicies::kRefuse);

// One line about an entry of summary.json's "pairs".
std::string PairText(const Json& pair);

// Writes summary.json (pretty), summary.csv, summary.md into `out`, and VERIFY.md when a candidate
// has a receipt (then also key.pub from `public_key_pem`). Durable; errors name the file.
absl::Status WriteSummaryFiles(const std::string& out, const Summary& summary,
                               const std::vector<SummaryCandidate>& candidates,
                               const std::string& public_key_pem);

// The text of VERIFY.md: checking every sealed candidate by hand with openssl and sha256sum.
std::string VerifyText(const std::vector<SummaryCandidate>& candidates);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_SUMMARY_H_
