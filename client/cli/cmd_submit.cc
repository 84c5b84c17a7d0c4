// assay submit: like score, but returns as soon as the run exists.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/no_worker.h"
#include "client/cli/score_job.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::StatusOr<int> RunSubmit(const ScoreOptions& options, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(ScoreInputs inputs, ParseScoreInputs(options));
  ASSAY_RETURN_IF_ERROR(ReadScoreInputs(options, &inputs, context));
  ASSAY_ASSIGN_OR_RETURN(const auto session, Session::Open(options.session, "assay submit", {}));
  ASSAY_ASSIGN_OR_RETURN(const Json created,
                         CreateScoreRun(options, &inputs, session.get(), context));
  const Json run = WithRefused(created, inputs);
  const std::string name = run.value("name", "");
  context.PrintJson(run);
  context.Print(
      fmt::format("{}  {}  ({})\nFollow it with: assay watch {} --server {}\n"
                  "Fetch results:  assay score with the same options and --out DIR",
                  name, run.value("state", ""), DescribeRun(inputs), name, options.session.server));
  if (!RunHasEnded(run)) WarnWithoutWorker(options.session, session.get(), context);
  bool refused = false;
  for (const LabelledModel& candidate : inputs.candidates) {
    if (candidate.status.ok()) continue;
    refused = true;
    context.Warn(fmt::format("candidate {} is left out [{}]: {}", candidate.label,
                             ReasonOf(candidate.status), MessageOf(candidate.status)));
  }
  return refused ? kExitPartly : kExitSuccess;
}

}  // namespace

void AddSubmitCommand(CLI::App& app, CliContext& context) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = AddCommand(
      app, context, "submit",
      "Create a run at a coordinator and return. The same command again names the same run;\n"
      "assay score with the same options fetches its results.",
      "  assay submit --server coordinator:7070 --reference models/base \\\n"
      "      --candidate models/base@rtn:bits=4,group=32 --suite suite\n");
  AddScoreOptions(command, options.get());
  command->add_option("--server", options->session.server, "Coordinator: HOST:PORT or unix:PATH")
      ->required();
  OnRun(command, context, [options, &context] { return RunSubmit(*options, context); });
}

}  // namespace assay
