#include "client/cli/commands.h"

#include "client/cli/artefact_commands.h"

namespace assay {

void AddAllCommands(CLI::App& app, CliContext& context) {
  AddScoreCommand(app, context);
  AddSubmitCommand(app, context);
  AddWatchCommand(app, context);
  AddRunsCommand(app, context);
  AddCancelCommand(app, context);
  AddSuiteCommand(app, context);
  AddModelCommand(app, context);
  AddCaptureCommand(app, context);
  AddCapturesCommand(app, context);
  AddHeadCommand(app, context);
  AddReplayCommand(app, context);
  AddLogitsCommand(app, context);
  AddImportCommand(app, context);
  AddDatasetCommand(app, context);
  AddReportCommand(app, context);
  AddReceiptCommand(app, context);
  AddPackCommand(app, context);
  AddVerifyCommand(app, context);
  AddWorkersCommand(app, context);
  AddVersionCommand(app, context);
}

}  // namespace assay
