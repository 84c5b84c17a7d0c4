// Commands over captures, suites, heads, datasets and packed results, one per file cmd_*.cc, as
// commands.h has the others.

#ifndef ASSAY_CLIENT_CLI_ARTEFACT_COMMANDS_H_
#define ASSAY_CLIENT_CLI_ARTEFACT_COMMANDS_H_

#include "client/cli/command.h"

namespace assay {

void AddHeadCommand(CLI::App& app, CliContext& context);
void AddImportCommand(CLI::App& app, CliContext& context);
void AddPackCommand(CLI::App& app, CliContext& context);
void AddCaptureFolderCommands(CLI::App& capture, CliContext& context);  // below "capture"
void AddCaptureConvertCommand(CLI::App& capture, CliContext& context);  // below "capture"
void AddDatasetPackCommand(CLI::App& dataset, CliContext& context);     // below "dataset"
void AddSuiteFolderCommands(CLI::App& suite, CliContext& context);      // below "suite"

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_ARTEFACT_COMMANDS_H_
