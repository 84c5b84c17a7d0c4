// Figures as people read them. Internal to storage/report and client/html.

#ifndef ASSAY_STORAGE_REPORT_SUMMARY_CELLS_H_
#define ASSAY_STORAGE_REPORT_SUMMARY_CELLS_H_

#include <string>

#include "storage/base/json.h"

namespace assay {

// A number in a printf format; "-" for anything else.
std::string NumberCell(const Json& value, const char* format = "%.6g");
// {"value","infinite_count"}: the value, or "infinite at N" positions.
std::string MeanCell(const Json& mean, const char* format = "%.6g");
// A probability times 100, without its unit.
std::string PercentCell(const Json& value, const char* format = "%.2f");
// The fraction of {"hits","positions","fraction"}, as PercentCell.
std::string FractionCell(const Json& fraction);
// "[low, high]" of a bootstrap object, or "none (5 clusters)".
std::string IntervalCell(const Json& bootstrap, const char* format = "%.6g");
// "98.4 MB": powers of ten, as file sizes are sold.
std::string BytesCell(const Json& bytes);
// "yes", "no", "yes (not among 9)" where it holds for one comparison but not for all of them, "-"
// where there is no interval. Of PairReports.
std::string DistinguishableCell(const Json& comparison);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_SUMMARY_CELLS_H_
