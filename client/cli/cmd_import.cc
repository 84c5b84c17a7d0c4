// assay import: operands from files of other tools.

#include <memory>

#include "client/cli/artefact_commands.h"
#include "client/cli/llamacpp_options.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/llamacpp/operand.h"

namespace assay {
namespace {

absl::StatusOr<int> ImportLogits(const LlamacppImportOptions& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const LlamacppSuiteOptions options, SuiteOptionsOf(command));
  ASSAY_ASSIGN_OR_RETURN(const Json operand,
                         ImportLlamacppLogits(command.file, options, command.out));
  (void)WarnOfFewClusters(command, operand["chunks"].get<int64_t>(), context);
  context.PrintJson(Json{{"operand", command.out}, {"document", operand}});
  context.Print(fmt::format(
      "{0}: {1} rows of {2} columns, {3}, SHA-256 {4}\n"
      "Against another logits file over the same text:\n\n"
      "    assay logits compare {0} CANDIDATE\n\n"
      "The file is clipped, so full-vocabulary numbers need the models again, over its suite:\n\n"
      "    assay score --suite {0}/suite --score-from {5} --reference MODEL --candidate MODEL "
      "--out DIR\n",
      command.out, operand["rows"].dump(), operand["vocab_size"].dump(),
      operand["coding"].get<std::string>(), operand["sha256"].get<std::string>(),
      operand["score_from"].dump()));
  return kExitSuccess;
}

}  // namespace

void AddImportCommand(CLI::App& app, CliContext& context) {
  CLI::App* import = AddGroup(app, "import", "Take files of other tools as operands",
                              "  assay import llamacpp-logits base.kld --bos none --out base\n");
  auto command = std::make_shared<LlamacppImportOptions>();
  CLI::App* logits = AddCommand(
      *import, context, "llamacpp-logits",
      "Check a file of llama-perplexity --kl-divergence-base and keep it with the suite of its "
      "text\n"
      "and with what it may be compared with. assay logits takes the folder in the file's place;\n"
      "assay suite import llamacpp-logits makes the suite alone.",
      "  assay import llamacpp-logits base.kld --bos none --out base\n");
  AddLlamacppImportOptions(logits, command.get());
  OnRun(logits, context, [command, &context] { return ImportLogits(*command, context); });
}

}  // namespace assay
