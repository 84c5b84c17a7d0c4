// A summary's table on a terminal.

#ifndef ASSAY_CLIENT_CLI_SUMMARY_DISPLAY_H_
#define ASSAY_CLIENT_CLI_SUMMARY_DISPLAY_H_

#include <vector>

#include "client/cli/command.h"
#include "storage/report/summary.h"

namespace assay {

// The table of `summary`, made of `candidates`, below a line for each --limit that a result stands
// under: it is partial, and nothing in the table looks different.
void PrintSummaryTable(const Json& summary, const std::vector<SummaryCandidate>& candidates,
                       CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_SUMMARY_DISPLAY_H_
