// What a summary says of one head mode of one report. Internal to storage/report.

#ifndef ASSAY_STORAGE_REPORT_HEAD_SUMMARY_H_
#define ASSAY_STORAGE_REPORT_HEAD_SUMMARY_H_

#include <string>

#include "storage/base/json.h"

namespace assay {

// ln(PPL(Q)/PPL(base)) of a report's head entry: {"mean","context_bootstrap","ratio"}. The mean is
// the difference of the two exactly rounded mean NLLs (candidate minus reference, over positions),
// in nats; the interval draws documents and is of the mean over contexts, which is the same mean
// where all contexts have as many positions; the ratio is exp of the mean. null where an NLL is
// infinite.
Json LnPerplexityRatioJson(const Json& head_entry);

// What tables show of `head` of an assay-report/1, by the names that the report uses, and what
// follows from them (docs/report.md, "summary.json").
Json HeadSummaryJson(const Json& report, const std::string& head);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_HEAD_SUMMARY_H_
