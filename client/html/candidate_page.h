// The page of one candidate: OUT/LABEL/report.html.

#ifndef ASSAY_CLIENT_HTML_CANDIDATE_PAGE_H_
#define ASSAY_CLIENT_HTML_CANDIDATE_PAGE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "client/html/head_scan.h"
#include "client/html/suite_tokens.h"
#include "client/html/token_text.h"
#include "storage/base/json.h"

namespace assay {

// Everything that one page is made from; borrowed.
struct CandidateView {
  const Json* entry = nullptr;            // of summary.json
  const Json* report = nullptr;           // report.json
  std::map<std::string, HeadScan> scans;  // by head
  const SuiteTokens* suite = nullptr;     // null: the observed tokens are not at hand
  const TokenText* tokens = nullptr;      // null: ids only
};

// The document. REPORT_INVALID when the report lacks what a page needs.
absl::StatusOr<std::string> CandidatePage(const CandidateView& view);

// Parts of it, in files of their own.

// Tiles, distribution, strata, contexts, worst positions and position curve of one head; `data`
// gets the numbers that the figures are drawn from.
absl::StatusOr<std::string> HeadSectionHtml(const CandidateView& view, const std::string& head,
                                            Json* data);
std::string StrataFigureHtml(const Json& head_report, const std::string& head, Json* data);
// The fifty worst positions.
absl::StatusOr<std::string> WorstPositionsHtml(const CandidateView& view, const std::string& head);
// Where the numbers come from, what a reader must know, how to check them.
std::string ProvenanceHtml(const CandidateView& view);
std::string DisclosuresHtml(const Json& disclosures);
std::string VerifyHtml(const CandidateView& view);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_CANDIDATE_PAGE_H_
