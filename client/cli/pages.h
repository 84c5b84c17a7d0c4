// The HTML pages that score and replay leave in OUT, beside what is sealed.

#ifndef ASSAY_CLIENT_CLI_PAGES_H_
#define ASSAY_CLIENT_CLI_PAGES_H_

#include "client/cli/command.h"
#include "client/html/write_pages.h"
#include "storage/report/summary.h"

namespace assay {

// --no-html
void AddNoHtmlOption(CLI::App* command, bool* no_html);

// Writes the pages of request.out and says where they are, or with `no_html` removes those of an
// earlier run, which would show other results. The result stands without them: what keeps them from
// being written is a warning that names the command to make them with later. A vocabulary that
// cannot be read is left out, and so is the suite where it is not that of the result.
void LeaveResultPages(PagesRequest request, bool no_html,
                      const std::vector<SummaryCandidate>& candidates, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_PAGES_H_
