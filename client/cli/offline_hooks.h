// What the commands that need no server share.

#ifndef ASSAY_CLIENT_CLI_OFFLINE_HOOKS_H_
#define ASSAY_CLIENT_CLI_OFFLINE_HOOKS_H_

#include "client/cli/command.h"
#include "worker/group/offline.h"

namespace assay {

// Progress lines on the context's printer, notes above them, Ctrl-C as an interruption. `context`
// outlives the hooks.
OfflineHooks CommandLineHooks(CliContext& context);

// --tp and --threads.
void AddRankOptions(CLI::App* command, OfflineRanks* ranks);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_OFFLINE_HOOKS_H_
