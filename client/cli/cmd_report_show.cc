// assay report show: a report as a table, as llama-perplexity prints it, or as it was sealed.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/published_files.h"
#include "client/cli/report_files.h"
#include "client/cli/summary_display.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/llamacpp/block.h"
#include "storage/report/report.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

struct ShowCommand {
  SessionOptions session;
  std::string name, head, versus;
  std::string style = "table";
};

// Values of Assay's own, float32 as the tool holds them.
std::vector<LlamacppToolRow> ToolRows(const PositionArrays& arrays) {
  std::vector<LlamacppToolRow> rows(arrays.positions);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].kl = arrays[F64Output::kKlRefCand][i];
    rows[i].nll = static_cast<float>(arrays[F64Output::kNllCand][i]);
    rows[i].nll_base = static_cast<float>(arrays[F64Output::kNllRef][i]);
    rows[i].delta_p = static_cast<float>(arrays[F64Output::kDeltaP][i]);
    rows[i].same_top = arrays[I32Output::kTop1Ref][i] == arrays[I32Output::kTop1Cand][i];
  }
  return rows;
}

// What stands behind the block, which looks like the tool's but is not the tool's run.
std::string BlockNote(const Json& report, const std::string& head) {
  const int64_t length = report.at("suite").at("context_length").get<int64_t>();
  const int64_t from = report.at("coverage").value("score_from", int64_t{0});
  const Json& interval =
      report.at("heads").at(head).at("statistics").at("kl_ref_cand").at("context_bootstrap");
  std::string text = fmt::format(
      "Computed by Assay over the whole vocabulary ({}), {}. llama-perplexity skips\n"
      "columns below -16 nats of a 16-bit base (about 0.2 % of the KLD), and its engine rounds\n"
      "activations to 8 bits for quantized weights (on SmolLM2: 0.004 nats, 0.4 % of the PPL).\n",
      head == kHeadOwn ? "as served" : "body only",
      from > 0 ? fmt::format("without the first {} positions of each context", from)
               : "all positions");
  if (from != length / 2) {
    text += fmt::format(
        "llama-perplexity scores the second half of each context: --score-from {} does the same.\n",
        length / 2);
  }
  text += "The tool's +- treats positions as independent; ";
  text += interval.at("refused").is_null()
              ? fmt::format(
                    "with documents as the unit the Mean KLD has the\n95 % interval "
                    "[{:.6f}, {:.6f}].\n",
                    interval.at("ci95_low").get<double>(), interval.at("ci95_high").get<double>())
              : fmt::format("there is no interval with documents as the\nunit: {}.\n",
                            interval.at("refused").get<std::string>());
  return text;
}

absl::Status PrintBlock(const NamedResults& all, const NamedResult& result,
                        const ShowCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::string head, ChooseHead(result, command.head));
  ASSAY_ASSIGN_OR_RETURN(const PositionArrays arrays, ReadArrays(all, result, head));
  const std::string block = LlamacppClosingBlock(ToolRows(arrays));
  if (block.empty()) {
    return PreconditionError(
        "TOO_FEW_POSITIONS",
        fmt::format("{} has {} positions and llama-perplexity prints this block for {} or more; "
                    "--style table shows what there is",
                    result.candidate.label, arrays.positions, kLlamacppBlockRowsMin));
  }
  if (all.results.size() > 1) context.Print(fmt::format("\n{}\n", result.candidate.label));
  context.Print(block);
  context.Print("\n" + BlockNote(result.candidate.report, head));
  return absl::OkStatus();
}

std::vector<SummaryCandidate> CandidatesOf(const NamedResults& all) {
  std::vector<SummaryCandidate> candidates;
  for (const NamedResult& result : all.results) candidates.push_back(result.candidate);
  return candidates;
}

absl::StatusOr<Summary> SummaryOf(const NamedResults& all, const ShowCommand& command) {
  SummaryOptions options;
  options.versus = command.versus;
  return BuildSummary(CandidatesOf(all), options);
}

absl::StatusOr<int> ShowReport(const ShowCommand& command, CliContext& context) {
  if (IsPublishedFile(command.name)) {
    if (command.style == "llama.cpp") {
      return PreconditionError("FILE_MISSING",
                               command.name +
                                   ": a published report has no values of single positions, which "
                                   "this block is made of; use --style table");
    }
    context.json = context.json || command.style == "json";
    return ShowPublished(command.name, context);
  }
  ASSAY_ASSIGN_OR_RETURN(const NamedResults all,
                         FindResults(command.name, command.session, "assay report show"));
  const bool one = all.results.size() == 1;
  if (one && (context.json || command.style == "json")) {
    context.out() << all.results.front().bytes << "\n";
    return kExitSuccess;
  }
  if (context.json || command.style == "json") {
    ASSAY_ASSIGN_OR_RETURN(const Summary summary, SummaryOf(all, command));
    context.out() << PythonPrettyJson(summary.json) << "\n";
    return kExitSuccess;
  }
  if (command.style == "llama.cpp") {
    for (const NamedResult& result : all.results) {
      const SummaryCandidate& candidate = result.candidate;
      if (!candidate.failed_reason.empty()) {
        context.Warn(fmt::format("{} failed [{}]: {}", candidate.label, candidate.failed_reason,
                                 candidate.failed_message));
        continue;
      }
      ASSAY_RETURN_IF_ERROR(PrintBlock(all, result, command, context));
    }
    return kExitSuccess;
  }
  ASSAY_ASSIGN_OR_RETURN(const Summary summary, SummaryOf(all, command));
  PrintSummaryTable(summary.json, CandidatesOf(all), context);
  return kExitSuccess;
}

}  // namespace

void AddReportShowCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<ShowCommand>();
  CLI::App* show = AddCommand(
      report, context, "show",
      "Show a result: a candidate's folder or report.json, a whole --out folder, a file of assay\n"
      "pack, a sealed report of a coordinator, or a published report of another system. --json\n"
      "prints report.json as it was sealed (of an --out folder: its summary).\n"
      "docs/reading-a-report.md explains every figure.",
      "  assay report show result/int4\n"
      "  assay report show result/int4 --style llama.cpp\n"
      "  assay report show result --versus int8\n"
      "  assay report show reports/1a2b... --server coordinator:7070 --json\n");
  show->add_option("REPORT", command->name,
                   "File or folder, or reports/ID (or ID) of a coordinator")
      ->required();
  show->add_option("--style", command->style,
                   "table; llama.cpp: the closing block of llama-perplexity --kl-divergence; json: "
                   "the document as it was sealed")
      ->check(CLI::IsMember({"table", "llama.cpp", "json"}))
      ->capture_default_str();
  show->add_option("--head", command->head,
                   "For llama.cpp: own (as served) or shared (body only); default: own if there")
      ->check(CLI::IsMember({"own", "shared"}));
  show->add_option("--versus", command->versus,
                   "Of an --out folder: label that the others are compared with");
  AddSessionOptions(show, &command->session);
  OnRun(show, context, [command, &context] { return ShowReport(*command, context); });
}

}  // namespace assay
