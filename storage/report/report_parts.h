// Parts of assay-report/1 that are not statistics. Internal to storage/report.

#ifndef ASSAY_STORAGE_REPORT_REPORT_PARTS_H_
#define ASSAY_STORAGE_REPORT_REPORT_PARTS_H_

#include "storage/report/report.h"

namespace assay {

// REPORT_INPUTS_INVALID, naming the field.
absl::Status CheckReportInputs(const ReportInputs& inputs);

Json SuiteJson(const SuiteInfo& suite);
Json CoverageJson(const SuiteInfo& suite, const std::vector<ReportContext>& contexts);
Json OperandJson(const OperandInfo& operand);
Json NumericJson(const NumericInfo& numeric);
Json HeadIdentityJson(const HeadIdentity& head);
Json NoiseFloorJson(const std::vector<RepeatedCapture>& repeats);
Json DisclosuresJson(const ReportInputs& inputs);

// own minus shared; null unless `heads` (heads of a report) has both.
Json HeadDifferenceJson(const Json& heads);
// Per head: {"value","sampling","noise"}.
Json SmallestDifferenceJson(const Json& heads, const Json& noise_floor);
// SHA-256 of the scored context indices, one decimal number and a newline each.
std::string IndicesSha256(const std::vector<int64_t>& indices);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_REPORT_PARTS_H_
