#include "storage/report/report.h"

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/report_parts.h"
#include "storage/report/statistics.h"

namespace assay {
namespace {

std::string Description(std::string_view head) {
  return head == kHeadOwn ? "as served" : "body only";
}

Json HeadJson(std::string_view name, const HeadResult& head,
              const std::vector<ReportContext>& contexts) {
  Json json;
  json["description"] = Description(name);
  json["reference_head"] = HeadIdentityJson(head.reference_head);
  json["candidate_head"] = HeadIdentityJson(head.candidate_head);
  json.update(HeadStatisticsJson(contexts, head.arrays));
  return json;
}

}  // namespace

absl::StatusOr<Json> BuildReport(const ReportInputs& inputs) {
  ASSAY_RETURN_IF_ERROR(CheckReportInputs(inputs));
  Json report;
  report["schema"] = std::string(kReportSchema);
  report["suite"] = SuiteJson(inputs.suite);
  report["coverage"] = CoverageJson(inputs.suite, inputs.contexts);
  report["reference"] = OperandJson(inputs.reference);
  report["candidate"] = OperandJson(inputs.candidate);
  report["numeric"] = NumericJson(inputs.numeric);
  report["disclosures"] = DisclosuresJson(inputs);
  Json heads = Json::object();
  for (const auto& [name, head] : inputs.heads) {
    heads[name] = HeadJson(name, head, inputs.contexts);
  }
  report["head_difference"] = HeadDifferenceJson(heads);
  report["noise_floor"] = NoiseFloorJson(inputs.repeats);
  report["smallest_resolvable_difference"] =
      SmallestDifferenceJson(heads, report.at("noise_floor"));
  report["heads"] = std::move(heads);
  // Read back from its bytes, so that a report is the same document built or read.
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReportBytes(report));
  return ParseReport(bytes, "report");
}

absl::StatusOr<std::string> ReportBytes(const Json& report) {
  ASSAY_ASSIGN_OR_RETURN(std::string bytes, CanonicalJson(report));
  if (bytes.size() > kReportBytesMax) {
    return ExhaustedError("REPORT_TOO_LARGE", "the report has " + std::to_string(bytes.size()) +
                                                  " bytes, the limit is " +
                                                  std::to_string(kReportBytesMax));
  }
  return bytes;
}

}  // namespace assay
