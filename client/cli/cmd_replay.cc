// assay replay: captures compared on this machine, without a server and without a receipt.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/device_option.h"
#include "client/cli/labels.h"
#include "client/cli/numeric_options.h"
#include "client/cli/offline_hooks.h"
#include "client/cli/pages.h"
#include "client/cli/replay_options.h"
#include "client/cli/summary_display.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/numeric_policy.h"
#include "worker/group/offline_replay.h"

namespace assay {
namespace {

struct ReplayOptions {
  OfflineReplayRequest request;
  std::vector<std::string> candidates;
  HeadOptions heads;
  MetricOptions metric;
  OfflineRanks ranks;
  std::string device = "auto";
  std::string versus;  // label; "" = the best candidate
  bool no_html = false;
};

absl::Status CheckVersus(const ReplayOptions& options) {
  if (options.versus.empty()) return absl::OkStatus();
  std::vector<std::string> labels;
  for (const LabelledInput& input : options.request.candidates) {
    labels.push_back(input.label.empty() ? BaseName(input.value) : input.label);
  }
  return CheckLabelGiven(options.versus, labels);
}

// The replay has written its summary against the best candidate; here against the one asked for.
absl::Status CompareWith(const ReplayOptions& options, OfflineReplayResult* result) {
  if (options.versus.empty()) return absl::OkStatus();
  SummaryOptions summary;
  summary.versus = options.versus;
  ASSAY_ASSIGN_OR_RETURN(result->summary, BuildSummary(result->candidates, summary));
  return WriteSummaryFiles(options.request.out, result->summary, result->candidates, "");
}

Json ResultDocument(const ReplayOptions& options, const OfflineReplayResult& result) {
  Json document;
  document["sealed"] = false;
  document["out"] = options.request.out;
  document["candidates"] = Json::array();
  for (const SummaryCandidate& candidate : result.candidates) {
    Json row;
    row["label"] = candidate.label;
    row["report_sha256"] =
        candidate.report_sha256.empty() ? Json(nullptr) : Json(candidate.report_sha256);
    if (candidate.failed_reason.empty()) {
      row["error"] = nullptr;
    } else {
      row["error"] = {{"reason", candidate.failed_reason}, {"message", candidate.failed_message}};
    }
    document["candidates"].push_back(std::move(row));
  }
  document["summary"] = result.summary.json;
  return document;
}

absl::StatusOr<int> RunReplayCommand(ReplayOptions& options, CliContext& context) {
  OfflineReplayRequest& request = options.request;
  ASSAY_RETURN_IF_ERROR(CheckNumericPolicy(request.policy));
  ASSAY_RETURN_IF_ERROR(ApplyDevice(options.device, &request.backend));
  ASSAY_RETURN_IF_ERROR(CheckOutPolicy(request.out, request.policy, request.backend));
  ASSAY_ASSIGN_OR_RETURN(request.candidates, SplitLabels(options.candidates));
  request.head = options.heads.head;
  request.head_bias = options.heads.bias;
  ASSAY_ASSIGN_OR_RETURN(request.candidate_heads, SplitLabels(options.heads.candidate_heads));
  ASSAY_ASSIGN_OR_RETURN(request.candidate_head_biases,
                         SplitLabels(options.heads.candidate_biases));
  const MetricOptions& metric = options.metric;
  request.logit_scale = metric.logit_scale;
  request.softcap = metric.softcap;
  request.valid_vocab = metric.valid_vocab;
  request.vocab_chunk = metric.vocab_chunk;
  request.score_from = metric.score_from;
  request.limit = metric.limit;
  request.allow_infinite = metric.allow_infinite;
  context.progress().Note(fmt::format("assay replay: {} candidate{} against {} over {}",
                                      options.candidates.size(),
                                      options.candidates.size() == 1 ? "" : "s",
                                      options.request.reference, options.request.suite_dir));
  ASSAY_RETURN_IF_ERROR(CheckVersus(options));
  ASSAY_ASSIGN_OR_RETURN(OfflineReplayResult result,
                         OfflineReplay(options.request, options.ranks, CommandLineHooks(context)));
  ASSAY_RETURN_IF_ERROR(CompareWith(options, &result));
  context.progress().End();
  context.PrintJson(ResultDocument(options, result));
  PrintSummaryTable(result.summary.json, result.candidates, context);
  context.Print(
      fmt::format("UNSEALED: made by assay replay, without a receipt. Files are in {}; assay score "
                  "gives a sealed result.",
                  options.request.out));
  LeaveResultPages({options.request.out, "", options.request.suite_dir, options.request.head},
                   options.no_html, result.candidates, context);
  for (size_t i = 0; i < result.statuses.size(); ++i) {
    if (result.statuses[i].ok()) continue;
    context.Warn(fmt::format("candidate {} was refused [{}]: {}", result.candidates[i].label,
                             ReasonOf(result.statuses[i]), MessageOf(result.statuses[i])));
  }
  return result.failed == 0 ? kExitSuccess : kExitPartly;
}

}  // namespace

void AddReplayCommand(CLI::App& app, CliContext& context) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = AddCommand(
      app, context, "replay",
      "Compare captures position by position over the whole vocabulary, without a server.\n"
      "Writes the files of assay score except receipts: the result is UNSEALED. Digests of all "
      "inputs are\n"
      "right before anything is written.",
      "  assay replay --reference captures/reference --candidate captures/int4 \\\n"
      "      --head model.gguf --suite suite --out result\n"
      "  assay replay --reference ref --candidate a=capture-a --candidate b=capture-b \\\n"
      "      --head head.safetensors:lm_head.weight --candidate-head b=b-head.safetensors \\\n"
      "      --suite suite --out result --tp 2\n");
  OfflineReplayRequest& request = options->request;
  command->add_option("--reference,--base", request.reference, "Capture directory of the reference")
      ->required();
  command
      ->add_option("--candidate", options->candidates,
                   "[LABEL=]CAPTURE, a capture directory to compare; may be repeated")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddHeadOptions(command, &options->heads)->required();
  AddMetricOptions(command, &options->metric);
  command->add_option("--suite", request.suite_dir, "Suite folder")->required();
  command->add_option("--out", request.out, "Folder for the results")->required();
  command->add_option("--filter", request.filter,
                      "Contexts to compare: all, sentinel, or a partition; by default those that "
                      "the reference was captured for");
  AddNumericOptions(command, &request.policy, &request.backend);
  command
      ->add_option("--row-tile", request.row_tile,
                   "Positions computed together; bounds memory, changes no result")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--versus", options->versus,
                      "Label of the candidate that the others are compared with; default: the one "
                      "with the smallest mean KLD");
  AddNoHtmlOption(command, &options->no_html);
  AddRankOptions(command, &options->ranks);
  AddDeviceOption(command, &options->device);
  OnRun(command, context, [options, &context] { return RunReplayCommand(*options, context); });
}

}  // namespace assay
