// assay suite import: suites from files of other tools.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/llamacpp_options.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/llamacpp/suite.h"

namespace assay {
namespace {

absl::StatusOr<int> ImportLlamacpp(const LlamacppImportOptions& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const LlamacppSuiteOptions options, SuiteOptionsOf(command));
  ASSAY_ASSIGN_OR_RETURN(const auto file, LlamacppLogits::Open(command.file));
  ASSAY_RETURN_IF_ERROR(WriteLlamacppSuite(*file, options, command.out));
  const int64_t clusters = WarnOfFewClusters(command, file->chunks(), context);
  context.PrintJson(Json{{"suite", command.out},
                         {"contexts", file->chunks()},
                         {"context_length", file->context_length()},
                         {"source_clusters", clusters},
                         {"score_from", file->first_position()}});
  context.Print(fmt::format(
      "{}: {} contexts of {} tokens, {} clusters.\nThe tool scores the second half of each; for "
      "the "
      "same positions:\n\n    assay score --suite {} --score-from {} --reference MODEL --candidate "
      "MODEL --out DIR",
      command.out, file->chunks(), file->context_length(), clusters, command.out,
      file->first_position()));
  return kExitSuccess;
}

}  // namespace

void AddSuiteImportCommand(CLI::App& suite, CliContext& context) {
  CLI::App* import =
      AddGroup(suite, "import", "Make a suite from a file of another tool",
               "  assay suite import llamacpp-logits base.kld --bos none --out panel\n");
  auto command = std::make_shared<LlamacppImportOptions>();
  CLI::App* llamacpp = AddCommand(
      *import, context, "llamacpp-logits",
      "The chunks of a file of llama-perplexity --kl-divergence-base as contexts, so that an old "
      "panel goes on",
      "  assay suite import llamacpp-logits base.kld --bos none --out panel\n"
      "  assay suite import llamacpp-logits base.kld --bos 1 --out panel\n");
  AddLlamacppImportOptions(llamacpp, command.get());
  OnRun(llamacpp, context, [command, &context] { return ImportLlamacpp(*command, context); });
}

}  // namespace assay
