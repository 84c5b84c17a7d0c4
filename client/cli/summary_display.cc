#include "client/cli/summary_display.h"

#include <set>

#include "client/cli/tables.h"
#include "fmt/format.h"

namespace assay {

void PrintSummaryTable(const Json& summary, const std::vector<SummaryCandidate>& candidates,
                       CliContext& context) {
  std::set<std::string> lines;
  for (const SummaryCandidate& candidate : candidates) {
    if (!candidate.failed_reason.empty()) continue;
    const Json& coverage = candidate.report.at("coverage");
    if (!coverage.contains("limit")) continue;
    lines.insert(fmt::format(
        "PARTIAL: {} contexts of filter {} (--limit {}); the suite has {}. Do not publish it.",
        coverage.at("contexts").dump(), coverage.at("filter").get<std::string>(),
        coverage.at("limit").dump(), candidate.report.at("suite").at("contexts").dump()));
  }
  for (const std::string& line : lines) context.Print(line);
  context.Print(SummaryTable(summary, TerminalColumns()));
}

}  // namespace assay
