// assay runs disputes: a command below `assay runs`.

#ifndef ASSAY_CLIENT_CLI_CMD_DISPUTES_H_
#define ASSAY_CLIENT_CLI_CMD_DISPUTES_H_

#include "client/cli/command.h"

namespace assay {

void AddDisputesCommand(CLI::App& runs, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_CMD_DISPUTES_H_
