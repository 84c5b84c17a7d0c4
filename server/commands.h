// Commands of assayd beside serving. Each prints to standard output and gives an exit code: 0, 2
// for bad usage, 22 while another process uses the data folder, 1 for anything else.

#ifndef ASSAY_SERVER_COMMANDS_H_
#define ASSAY_SERVER_COMMANDS_H_

#include <string>

#include "absl/status/status.h"

namespace assay {

int TokenCommand(int argc, char** argv);  // assayd token create|list|revoke
int KeyCommand(int argc, char** argv);    // assayd key list|rotate

// Prints "assayd: error [REASON]: sentence" and gives the exit code.
int ReportCommandError(const absl::Status& status);

}  // namespace assay

#endif  // ASSAY_SERVER_COMMANDS_H_
