// assay capture import: below "capture", which adds it.

#ifndef ASSAY_CLIENT_CLI_CMD_CAPTURE_IMPORT_H_
#define ASSAY_CLIENT_CLI_CMD_CAPTURE_IMPORT_H_

#include "client/cli/command.h"

namespace assay {

void AddCaptureImportCommands(CLI::App& capture, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_CMD_CAPTURE_IMPORT_H_
