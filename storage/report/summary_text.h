// The forms in which a summary is shown. Internal to storage/report; all read the summary's JSON,
// so that summary.json holds whatever they show.

#ifndef ASSAY_STORAGE_REPORT_SUMMARY_TEXT_H_
#define ASSAY_STORAGE_REPORT_SUMMARY_TEXT_H_

#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay {

struct SummaryRow {
  std::string name;
  std::vector<std::string> cells;  // one per candidate of the block
};

// The rows of one head mode for some candidates (summary.json entries), a row whose cells would all
// be "-" left out.
std::vector<SummaryRow> SummaryRows(const std::vector<const Json*>& candidates,
                                    const std::string& head);
// Lines under the table: pairs, failures, files and receipts, disclosures; "" separates groups.
std::vector<std::string> SummaryNotes(const Json& summary);

std::string SummaryTable(const Json& summary);
std::string SummaryMarkdown(const Json& summary);
std::string SummaryCsv(const Json& summary);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_SUMMARY_TEXT_H_
