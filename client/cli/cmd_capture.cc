// assay capture: a capture directory made on this machine, without a server.

#include <memory>

#include "client/cli/artefact_commands.h"
#include "client/cli/cmd_capture_import.h"
#include "client/cli/commands.h"
#include "client/cli/device_option.h"
#include "client/cli/offline_hooks.h"
#include "client/cli/score_job.h"
#include "client/cli/tokenizer_check.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_names.h"
#include "storage/format/model_spec.h"
#include "worker/group/offline_capture.h"

namespace assay {
namespace {

struct CaptureOptions {
  std::string model;
  OfflineCaptureRequest request;
  OfflineRanks ranks;
  std::string device = "auto";
};

// Not left to the parser: `assay capture import` takes none of them.
absl::Status CheckRequired(const CaptureOptions& options) {
  for (const auto& [flag, value] : {std::pair("--model", &options.model),
                                    {"--suite", &options.request.suite_dir},
                                    {"--out", &options.request.out}}) {
    if (value->empty()) {
      return InvalidError("BAD_USAGE",
                          fmt::format("{} is required; see assay capture --help", flag));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunCapture(CaptureOptions& options, CliContext& context) {
  ASSAY_RETURN_IF_ERROR(CheckRequired(options));
  ASSAY_RETURN_IF_ERROR(ApplyDevice(options.device, nullptr));
  ASSAY_ASSIGN_OR_RETURN(options.request.model, ParseModelSpec(options.model));
  ASSAY_ASSIGN_OR_RETURN(options.request.model.path, ModelPathOf(options.request.model.path));
  options.request.digest_cache = DigestCachePath();
  // A suite that cannot be read is refused below, with its own words.
  if (const auto suite = ReadJsonFile(JoinPath(options.request.suite_dir, "suite-manifest.json"),
                                      kSuiteManifestBytesMax);
      suite.ok()) {
    const std::string difference = TokenizerDifference(*suite, options.request.model.path, nullptr);
    if (!difference.empty()) context.Warn(difference);
  }
  context.progress().Note(fmt::format("assay capture: {} over {} ({} contexts) into {}",
                                      options.model, options.request.suite_dir,
                                      options.request.filter, options.request.out));
  ASSAY_ASSIGN_OR_RETURN(const OfflineCaptureResult result,
                         OfflineCapture(options.request, options.ranks, CommandLineHooks(context)));
  context.progress().End();
  Json document;
  document["capture"] = options.request.out;
  document["content_sha256"] = result.content_sha256;
  document["model_identity"] = result.model_identity;
  document["captured"] = result.captured;
  document["kept"] = result.kept;
  document["retried_units"] = result.attempts;
  document["manifest"] = result.manifest;
  context.PrintJson(document);
  context.Print(fmt::format("{}: {} contexts captured, {} kept from before\ncontent {}",
                            options.request.out, result.captured, result.kept,
                            result.content_sha256));
  return kExitSuccess;
}

}  // namespace

void AddCaptureCommand(CLI::App& app, CliContext& context) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* command = AddCommand(
      app, context, "capture",
      "Capture a model's final hidden states over a suite, without a server.\n"
      "The output folder is in the published capture form. An interrupted capture is continued by\n"
      "the same command: contexts that are there and match their digests are kept.\n"
      "Its subcommands look at captures that are there, in any published form.",
      "  assay capture --model model.gguf --suite suite --out captures/reference\n"
      "  assay capture --model model.gguf@rtn:bits=4,group=32 --suite suite --out captures/int4\n"
      "  assay capture --model hf-folder --suite suite --out sentinels --filter sentinel --tp 2\n");
  command->add_option(
      "--model", options->model,
      "GGUF file, Hugging Face folder or models/NAME, with @TRANSFORM for a what-if "
      "(rtn:bits=B[,group=N]); required");
  command->add_option("--suite", options->request.suite_dir, "Suite folder; required");
  command->add_option("--out", options->request.out, "Capture directory to write; required");
  command
      ->add_option("--filter", options->request.filter,
                   "Contexts to capture: all, sentinel, or a partition")
      ->capture_default_str();
  command
      ->add_option("--limit", options->request.limit,
                   "Capture only N contexts, spread evenly over the strata (0: all); assay replay "
                   "and assay score take the capture with the same --limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  AddRankOptions(command, &options->ranks);
  AddDeviceOption(command, &options->device);
  OnRun(command, context, [options, &context] { return RunCapture(*options, context); });
  AddCaptureImportCommands(*command, context);
  AddCaptureFolderCommands(*command, context);
  AddCaptureConvertCommand(*command, context);
}

}  // namespace assay
