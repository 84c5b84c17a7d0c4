// assay score --dry-run: every input checked and the costs told, without any process or server.

#ifndef ASSAY_CLIENT_CLI_DRY_RUN_H_
#define ASSAY_CLIENT_CLI_DRY_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/score_job.h"

namespace assay {

struct DryRunOptions {
  bool asked = false;
  std::string rate_from;  // an earlier --out folder; "" = this run's own, when it holds a result
  double rate = 0;        // billions of multiply-adds per second and worker; 0 = not stated
};

// --dry-run, --rate-from, --rate.
void AddDryRunOptions(CLI::App* command, DryRunOptions* options);

// Checks suite, models (tensors, shapes, formats, vocabulary), captures, output folder, disk and
// memory, and prints every problem, then what the run would do. Models are digested, which the run
// itself then need not do again. Exit code 0 without a problem, else that of refused input. An
// error only where the command line itself is wrong.
absl::StatusOr<int> DryRun(const ScoreOptions& options, const DryRunOptions& dry,
                           const std::string& out, ScoreInputs inputs, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_DRY_RUN_H_
