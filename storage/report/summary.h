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

inline constexpr std::string_view kSummarySchema = "assay-summary/2";
// What earlier versions of assay wrote: without comparisons to one candidate.
inline constexpr std::string_view kSummarySchemaOld = "assay-summary/1";

struct SummaryCandidate {
  std::string label;          // folder name under --out
  Json report;                // assay-report/1; null when the candidate failed
  std::string report_sha256;  // of report.json
  std::string receipt_id;     // "" = UNSEALED
  // When the candidate failed: stable reason and sentence; both empty otherwise.
  std::string failed_reason, failed_message;
};

struct Summary {
  Json json;          // holds everything that the tables show
  std::string csv;    // one line per candidate and head, header line first (RFC 4180)
  std::string md;     // the tables as Markdown
  std::string table;  // SummaryTable for a terminal of kSummaryColumns
};

struct SummaryOptions {
  AcrossPolicies across = AcrossPolicies::kRefuse;
  std::string versus;  // label that all are compared with; "" = the best of each head mode
};

inline constexpr size_t kSummaryColumns = 100;

// Candidates in the order given. SUMMARY_INVALID when a report is not assay-report/1 or two labels
// are equal, LABEL_UNKNOWN when options.versus is no candidate. Candidates are compared only when
// their reports are comparable (comparability.h); a pair that is not says why.
absl::StatusOr<Summary> BuildSummary(const std::vector<SummaryCandidate>& candidates,
                                     const SummaryOptions& options = {});

// The tables of a summary.json in `columns` columns: up to two candidates in full, side by side or,
// where that is too wide, one after the other; more of them one to a row, the best first, with the
// differences to the baseline below.
std::string SummaryTable(const Json& summary, size_t columns = kSummaryColumns);

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
