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

struct SubmitCommand {
  ScoreOptions options;
  std::string device = "auto";
};

// What --device asks of the coordinator's workers, as a backend. DEVICE_INVALID.
absl::Status ApplyWorkerDevice(const std::string& device, std::string* backend) {
  if (device == "cpu" && *backend == "cuda-bf16") {
    return InvalidError("DEVICE_INVALID",
                        "--device cpu and --backend cuda-bf16 exclude each other");
  }
  if (device == "cuda" && *backend != "auto" && *backend != "cuda-bf16") {
    return InvalidError("DEVICE_INVALID", fmt::format("--device cuda and --backend {} exclude each "
                                                      "other",
                                                      *backend));
  }
  if (device == "cuda") *backend = "cuda-bf16";
  if (device == "auto" || device == "cpu" || device == "cuda") return absl::OkStatus();
  return InvalidError("DEVICE_INVALID",
                      fmt::format("--device {}: give auto, cpu or cuda; which GPUs a worker uses "
                                  "is said where it is started (CUDA_VISIBLE_DEVICES)",
                                  device));
}

absl::StatusOr<int> RunSubmit(SubmitCommand& command, CliContext& context) {
  ASSAY_RETURN_IF_ERROR(ApplyWorkerDevice(command.device, &command.options.backend));
  const ScoreOptions& options = command.options;
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
  auto submit = std::make_shared<SubmitCommand>();
  ScoreOptions* options = &submit->options;
  CLI::App* command = AddCommand(
      app, context, "submit",
      "Create a run at a coordinator and return. The same command again names the same run;\n"
      "assay score with the same options fetches its results.",
      "  assay submit --server coordinator:7070 --reference models/base \\\n"
      "      --candidate models/base@rtn:bits=4,group=32 --suite suite\n");
  AddScoreOptions(command, options);
  AddServerOptions(command, &options->session)->required();
  command
      ->add_option("--device", submit->device,
                   "Where the coordinator's workers replay: auto and cpu: on CPUs; cuda: on GPUs "
                   "(--backend cuda-bf16). Captures run on the CPU")
      ->capture_default_str();
  OnRun(command, context, [submit, &context] { return RunSubmit(*submit, context); });
}

}  // namespace assay
