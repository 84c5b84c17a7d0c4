// Checking a run's summaries against the candidates' folders. Internal to storage/seal.

#ifndef ASSAY_STORAGE_SEAL_VERIFY_SUMMARY_H_
#define ASSAY_STORAGE_SEAL_VERIFY_SUMMARY_H_

#include <array>
#include <string>
#include <string_view>

#include "storage/report/candidate_files.h"
#include "storage/seal/gates.h"

namespace assay {

// Written from the same reports as summary.json; checked when that is there.
inline constexpr std::array<std::string_view, 3> kSummaryTexts = {
    kSummaryCsvFile, kSummaryMarkdownFile, kVerifyTextFile};

// Rebuilds the summary of the folder `out` from the reports and receipts that it names, and
// compares it with summary.json by value and with summary.csv, summary.md and VERIFY.md byte for
// byte. A gate is not applicable when its file is not there, all when summary.json is not. Of a
// candidate that failed there is no report: its label, reason and sentence are taken as they stand.
// Of an assay-summary/1 the members that it has are compared, and its texts are not applicable.
void CheckSummaryFiles(const std::string& out, GateList* gates);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_VERIFY_SUMMARY_H_
