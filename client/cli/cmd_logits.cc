// assay logits: files of llama-perplexity --kl-divergence-base, looked at and compared.

#include <cmath>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/llamacpp/block.h"
#include "storage/llamacpp/compare.h"
#include "storage/llamacpp/operand.h"
#include "worker/group/group.h"

namespace assay {
namespace {

struct LogitsCommand {
  std::string base, cand, raw;
  int threads = 0;
};

absl::StatusOr<std::shared_ptr<const LlamacppLogits>> OpenOperand(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const std::string file, LlamacppFileOf(path));
  return LlamacppLogits::Open(file);
}

absl::StatusOr<int> InspectLogits(const LogitsCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, OpenOperand(command.base));
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(file->path()));
  uint64_t clipped = 0, floored = 0;
  for (int64_t i = 0; i < file->rows(); ++i) {
    const LlamacppRow row = file->Row(i);
    const auto zeros = static_cast<uint64_t>(std::count(row.codes.begin(), row.codes.end(), 0));
    floored += zeros;
    if (zeros > 1) ++clipped;
  }
  const double share = static_cast<double>(floored) / (static_cast<double>(file->rows()) *
                                                       static_cast<double>(file->vocab_size()));
  context.PrintJson(Json{{"file", command.base},
                         {"sha256", digest},
                         {"coding", std::string(LlamacppCodingName(file->coding()))},
                         {"context_length", file->context_length()},
                         {"vocab_size", file->vocab_size()},
                         {"chunks", file->chunks()},
                         {"rows", file->rows()},
                         {"first_position", file->first_position()},
                         {"rows_with_floor", clipped},
                         {"columns_at_floor", share}});
  context.Print(fmt::format(
      "{}: size, tokens and rows are sound (the format has no checksum)\n  coding          {}\n  "
      "SHA-256         {}\n  text            {} chunks of {} tokens\n  scored          positions "
      "{} to "
      "{} of each chunk, {} rows\n  vocabulary      {}\n  floor           {:.1f} % of the columns "
      "are "
      "only known to lie below it\n  not in the file model, BOS rule, batch size, text\n",
      command.base, LlamacppCodingName(file->coding()), digest, file->chunks(),
      file->context_length(), file->first_position(), file->context_length() - 2, file->rows(),
      file->vocab_size(), 100 * share));
  return kExitSuccess;
}

std::string CompareText(const Json& summary) {
  const auto line = [&](const char* key) {
    const Json& values = summary[key];
    std::vector<std::string> out;
    for (const char* name : {"mean", "p50", "p99", "p999", "max"}) {
      out.push_back(fmt::format("{:.6g}", values[name].get<double>()));
    }
    return out;
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, key] : {std::pair("KLD, renormalised (nats)", "kl_renorm"),
                                  {"KLD, lumped (nats)", "kl_lumped"},
                                  {"KLD, the tool's rule (nats)", "kl_skip16"},
                                  {"Reverse KLD, renormalised", "kl_reverse_renorm"},
                                  {"JSD, renormalised (bits)", "jsd_renorm_bits"}}) {
    std::vector<std::string> row = {name};
    for (std::string& value : line(key)) row.push_back(std::move(value));
    rows.push_back(std::move(row));
  }
  const double ratio = summary["nll_cand"].get<double>() - summary["nll_base"].get<double>();
  return TextTable({"", "MEAN", "MEDIAN", "99 %", "99.9 %", "MAX"}, rows) +
         fmt::format(
             "\n{} positions; same top {:.2f} %; PPL(Q)/PPL(base) {:.6f}\n"
             "Both files are clipped, so each reading is an estimate (docs/formats/llamacpp.md): "
             "the "
             "renormalised mean lies\nwithin 0.2 % of the true one on real text, the lumped one "
             "within 0.1 %. Neither is comparable with a full-vocabulary report.\n",
             summary["rows"].get<size_t>(), 100 * summary["same_top"].get<double>(),
             std::exp(ratio));
}

int Threads(const LogitsCommand& command) {
  return command.threads > 0 ? command.threads : AffinityCpus();
}

absl::StatusOr<int> CompareTwo(const LogitsCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto base, OpenOperand(command.base));
  ASSAY_ASSIGN_OR_RETURN(const auto cand, OpenOperand(command.cand));
  ASSAY_ASSIGN_OR_RETURN(const auto rows, CompareLogitsFiles(*base, *cand, Threads(command)));
  const Json summary = SummarizeLogitsRows(rows);
  context.PrintJson(summary);
  context.Print(CompareText(summary));
  return kExitSuccess;
}

absl::StatusOr<int> PrintTool(const LogitsCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto base, OpenOperand(command.base));
  ASSAY_ASSIGN_OR_RETURN(const auto rows, ToolRowsOfRaw(*base, command.raw, Threads(command)));
  const std::string block = LlamacppClosingBlock(rows);
  const std::string text =
      LlamacppChunkLines(rows, static_cast<size_t>(base->rows_per_chunk())) + "\n" + block;
  context.PrintJson(Json{{"text", text}});
  context.Print(text);
  if (block.empty()) {
    context.Warn("fewer than 100 rows: llama-perplexity prints no closing block for them");
  }
  return kExitSuccess;
}

void AddThreads(CLI::App* command, LogitsCommand* options) {
  command->add_option("--threads", options->threads, "Threads (0: all CPUs); changes no result")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

}  // namespace

void AddLogitsCommand(CLI::App& app, CliContext& context) {
  CLI::App* logits = AddGroup(app, "logits", "Inspect and compare logits files of llama.cpp",
                              "  assay logits inspect base.kld\n"
                              "  assay logits compare base.kld candidate.kld\n");
  auto options = std::make_shared<LogitsCommand>();
  CLI::App* inspect =
      AddCommand(*logits, context, "inspect", "Check a logits file and say what is in it",
                 "  assay logits inspect base.kld\n");
  inspect
      ->add_option("FILE", options->base,
                   "File of llama-perplexity --kl-divergence-base, or an imported one")
      ->required();
  OnRun(inspect, context, [options, &context] { return InspectLogits(*options, context); });
  CLI::App* compare = AddCommand(*logits, context, "compare",
                                 "Compare two logits files over the same text. Two sound readings, "
                                 "and the tool's rule as far as "
                                 "the candidate's codes allow",
                                 "  assay logits compare base.kld candidate.kld\n"
                                 "  assay logits compare base.kld candidate.kld --json\n");
  compare->add_option("BASE", options->base, "File of the reference")->required();
  compare->add_option("CANDIDATE", options->cand, "File of the candidate")->required();
  AddThreads(compare, options.get());
  OnRun(compare, context, [options, &context] { return CompareTwo(*options, context); });
  CLI::App* tool = AddCommand(*logits, context, "tool-block",
                              "Print what llama-perplexity --kl-divergence prints, digit for "
                              "digit, from a base file and the "
                              "candidate's raw logits",
                              "  assay logits tool-block base.kld candidate.logits.f32\n");
  tool->add_option("BASE", options->base, "File of the reference")->required();
  tool->add_option(
          "LOGITS", options->raw,
          "Raw logits of the candidate: float32 [rows, vocabulary], little-endian, the rows of "
          "BASE in order")
      ->required();
  AddThreads(tool, options.get());
  OnRun(tool, context, [options, &context] { return PrintTool(*options, context); });
}

}  // namespace assay
