// Names of what lies under --out, and the folder of one candidate there: LABEL/report.json,
// execution.json, receipt.json, positions/HEAD/OUTPUT.f64|.i32.

#ifndef ASSAY_STORAGE_REPORT_CANDIDATE_FILES_H_
#define ASSAY_STORAGE_REPORT_CANDIDATE_FILES_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/report/positions.h"

namespace assay {

inline constexpr std::string_view kReportFile = "report.json";
inline constexpr std::string_view kExecutionFile = "execution.json";
inline constexpr std::string_view kReceiptFile = "receipt.json";
inline constexpr std::string_view kPositionsFolder = "positions";
// Beside the candidates' folders.
inline constexpr std::string_view kSummaryFile = "summary.json";
inline constexpr std::string_view kSummaryCsvFile = "summary.csv";
inline constexpr std::string_view kSummaryMarkdownFile = "summary.md";
inline constexpr std::string_view kPublicKeyFile = "key.pub";
// The keys of the log, assay-keys/1; only where it has had more than one.
inline constexpr std::string_view kKeyListFile = "keys.json";
inline constexpr std::string_view kVerifyTextFile = "VERIFY.md";
// Pages for people (client/html), made from the files above: OUT/index.html, OUT/LABEL/report.html.
inline constexpr std::string_view kIndexPageFile = "index.html";
inline constexpr std::string_view kCandidatePageFile = "report.html";
// Where results that were replaced are kept: replaced/LABEL-<12 digits of its report>.
inline constexpr std::string_view kReplacedFolder = "replaced";

// [A-Za-z0-9._-]{1,128}, not "." or "..", not the name of a file of --out; LABEL_INVALID otherwise.
absl::Status CheckLabel(std::string_view label);

struct LabelledText {
  std::string label;  // "" = none given
  std::string value;
};

// [LABEL=]VALUE as people write it, VALUE being a file or folder, perhaps with @TRANSFORM. What
// stands before the first '=' is the label, unless the whole text is the name of a file, or that
// part holds '/' or '@' as paths and transforms do and what follows is no file. LABEL_INVALID for a
// label that is none.
absl::StatusOr<LabelledText> SplitLabel(std::string_view text);

struct CandidateFiles {
  std::string report;                  // bytes of report.json
  std::string execution;               // bytes of execution.json
  std::optional<std::string> receipt;  // bytes of receipt.json; absent: UNSEALED
  std::map<std::string, const PositionArrays*, std::less<>> heads;  // not owned
};

// Writes OUT/LABEL durably, report.json and receipt.json last, so that a folder with a receipt is
// complete. An old receipt is removed first, and so are temporary files that a killed process left
// in OUT or OUT/LABEL. Errors name the file.
absl::Status WriteCandidateFiles(const std::string& out, std::string_view label,
                                 const CandidateFiles& files);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_CANDIDATE_FILES_H_
