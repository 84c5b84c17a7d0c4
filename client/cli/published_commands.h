// Commands below "report" and "receipt" over documents of other systems.

#ifndef ASSAY_CLIENT_CLI_PUBLISHED_COMMANDS_H_
#define ASSAY_CLIENT_CLI_PUBLISHED_COMMANDS_H_

#include <string>

#include "client/cli/command.h"

namespace assay {

void AddReportAggregateCommand(CLI::App& report, CliContext& context);
void AddReportExportCommand(CLI::App& report, CliContext& context);
void AddReportJointCommand(CLI::App& report, CliContext& context);
void AddReportRecomputeCommand(CLI::App& report, CliContext& context);
void AddReceiptRecomputeCommand(CLI::App& receipt, CliContext& context);

// assay report verify FILE: prints one line for each gate and returns the exit code.
absl::StatusOr<int> VerifyPublished(const std::string& file, CliContext& context);

// assay verify PATH --key KEY ("" = none): prints the verdict and returns the exit code.
absl::StatusOr<int> VerifyPath(const std::string& path, const std::string& key,
                               CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_PUBLISHED_COMMANDS_H_
