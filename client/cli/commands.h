// Every command of `assay`, one per file cmd_NAME.cc.

#ifndef ASSAY_CLIENT_CLI_COMMANDS_H_
#define ASSAY_CLIENT_CLI_COMMANDS_H_

#include "client/cli/command.h"

namespace assay {

void AddScoreCommand(CLI::App& app, CliContext& context);
void AddSubmitCommand(CLI::App& app, CliContext& context);
void AddWatchCommand(CLI::App& app, CliContext& context);
void AddRunsCommand(CLI::App& app, CliContext& context);
void AddCancelCommand(CLI::App& app, CliContext& context);
void AddSuiteCommand(CLI::App& app, CliContext& context);
void AddSuiteImportCommand(CLI::App& suite, CliContext& context);  // below "suite"
void AddDatasetCommand(CLI::App& app, CliContext& context);
void AddLogitsCommand(CLI::App& app, CliContext& context);
void AddModelCommand(CLI::App& app, CliContext& context);
void AddCaptureCommand(CLI::App& app, CliContext& context);
void AddCapturesCommand(CLI::App& app, CliContext& context);
void AddReplayCommand(CLI::App& app, CliContext& context);
void AddReportCommand(CLI::App& app, CliContext& context);
void AddReportHtmlCommand(CLI::App& report, CliContext& context);  // below "report"
void AddReportPairCommand(CLI::App& report, CliContext& context);  // below "report"
void AddReportVerifyCommand(CLI::App& report, CliContext& context);
void AddReportShowCommand(CLI::App& report, CliContext& context);
void AddReportCheckCommand(CLI::App& report, CliContext& context);
void AddReceiptCommand(CLI::App& app, CliContext& context);
void AddReceiptVerifyCommand(CLI::App& receipt, CliContext& context);  // below "receipt"
void AddVerifyCommand(CLI::App& app, CliContext& context);
void AddWorkersCommand(CLI::App& app, CliContext& context);
void AddVersionCommand(CLI::App& app, CliContext& context);

// Adds all of them, in the order that help shows.
void AddAllCommands(CLI::App& app, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_COMMANDS_H_
