// The subcommands of assayd that look after a data folder: fsck, backup, gc.

#ifndef ASSAY_SERVER_MAINTAIN_COMMANDS_H_
#define ASSAY_SERVER_MAINTAIN_COMMANDS_H_

#include <optional>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/maintain/control.h"

namespace assay {

// Runs the subcommand that args[0] names and gives its exit code; nothing when it names none.
// `default_data_dir` holds without --data.
std::optional<int> RunMaintenance(const std::vector<std::string>& args,
                                  const std::string& default_data_dir);

// What the coordinator does for them.
ControlHandler MaintenanceHandler(Engine* engine);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_COMMANDS_H_
