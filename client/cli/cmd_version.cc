// assay version: which build this is.

#include "client/cli/commands.h"
#include "fmt/format.h"
#include "storage/base/build_info.h"

namespace assay {

void AddVersionCommand(CLI::App& app, CliContext& context) {
  CLI::App* command = AddCommand(app, context, "version", "Print the version of this program",
                                 "  assay version\n  assay version --json\n");
  OnRun(command, context, [&context]() -> absl::StatusOr<int> {
    Json document;
    document["program"] = "assay";
    document["version"] = std::string(AssayVersion());
    document["build_id"] = BuildId();
    context.PrintJson(document);
    context.Print(fmt::format("assay {} (build {})", AssayVersion(), BuildId()));
    return kExitSuccess;
  });
}

}  // namespace assay
