#include "client/cli/commands.h"

namespace assay {

void AddAllCommands(CLI::App& app, CliContext& context) {
  AddCaptureCommand(app, context);
  AddReplayCommand(app, context);
  AddVersionCommand(app, context);
}

}  // namespace assay
