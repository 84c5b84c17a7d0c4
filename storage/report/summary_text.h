// The forms in which a summary is shown. Internal to storage/report and client/html; all read the
// summary's JSON, so that summary.json holds whatever they show.

#ifndef ASSAY_STORAGE_REPORT_SUMMARY_TEXT_H_
#define ASSAY_STORAGE_REPORT_SUMMARY_TEXT_H_

#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay {

// Up to so many candidates are shown with all their figures; more get one row each.
inline constexpr size_t kCandidatesInFull = 2;

// Entries of summary.json's "candidates" that did not fail.
std::vector<const Json*> ScoredCandidates(const Json& summary);

struct SummaryRow {
  std::string name;
  std::vector<std::string> cells;  // one per candidate of the block
};

// The rows of one head mode for some candidates (summary.json entries), a row whose cells would all
// be "-" left out.
std::vector<SummaryRow> SummaryRows(const std::vector<const Json*>& candidates,
                                    const std::string& head);

// A table of one candidate to a row. Headings are broken at '\n'; the first column is the label.
struct SummaryGrid {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
// The figures that people compare first, the smallest mean KL first; columns that would not fit
// into `columns` characters are left out, the least important first (0: all are kept).
SummaryGrid OverviewGrid(const std::vector<const Json*>& candidates, const std::string& head,
                         size_t columns);
// Each candidate's difference to the baseline. No rows where nothing is compared.
struct SummaryVersusGrid : SummaryGrid {
  std::string baseline;
};
SummaryVersusGrid VersusGrid(const std::vector<const Json*>& candidates, const std::string& head);
// Plain text, <= `columns` where labels of 12 characters allow it: a label that is too long stands
// on a line of its own.
std::string GridText(const SummaryGrid& grid, size_t columns);
std::string GridMarkdown(const SummaryGrid& grid);

// Lines under the tables: pairs, failures, files and receipts, disclosures; "" separates groups.
std::vector<std::string> SummaryNotes(const Json& summary);

std::string SummaryMarkdown(const Json& summary);
std::string SummaryCsv(const Json& summary);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_SUMMARY_TEXT_H_
