#include "client/cli/commands.h"

namespace assay {

void AddAllCommands(CLI::App& app, CliContext& context) { AddVersionCommand(app, context); }

}  // namespace assay
