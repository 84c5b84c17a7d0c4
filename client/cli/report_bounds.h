// Bounds on figures of a report: "kl_ref_cand.mean.ci95_high=0.02".

#ifndef ASSAY_CLIENT_CLI_REPORT_BOUNDS_H_
#define ASSAY_CLIENT_CLI_REPORT_BOUNDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

struct ReportBound {
  std::string path;
  double value = 0;
  bool is_max = true;  // the figure must be <= value; else >= value
};

// PATH=NUMBER. BAD_USAGE for a missing '=' and for a number that is none or not finite.
absl::StatusOr<ReportBound> ParseReportBound(std::string_view text, bool is_max);

// A figure that a path names. value is null where the report has none: an infinite mean, no
// interval; `why` says so.
struct ReportFigure {
  Json value;
  std::string why;
};

// `path` is looked for, in this order, in heads.HEAD.statistics of `report` (an assay-report/1), in
// its entry of a summary (`summary_head`, of summary.json), in heads.HEAD and in the report itself.
// A mean may be named without ".value", a fraction without ".fraction", and ci95_low and ci95_high
// of a mean's interval directly: kl_ref_cand.mean.ci95_high. BAD_USAGE, with the nearest path there
// is, when it names nothing or no number.
absl::StatusOr<ReportFigure> FindFigure(const Json& report, const Json& summary_head,
                                        const std::string& head, std::string_view path);

// The same of a published report (qwen38-fidelity-report/1 to /3, docs/formats/published.md), by
// the same paths where it has the figure (kl_ref_cand.mean is its token_mean_kld), or by its own
// names. BAD_USAGE as above.
absl::StatusOr<ReportFigure> FindPublishedFigure(const Json& report, std::string_view path);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_REPORT_BOUNDS_H_
