// assay suite import: suites from files of other tools.

#include <memory>
#include <optional>

#include "client/cli/commands.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/llamacpp/suite.h"

namespace assay {
namespace {

struct ImportCommand {
  std::string file, out, bos;
  int64_t chunks_per_cluster = 8;
};

absl::StatusOr<std::optional<int32_t>> ParseBos(const std::string& text) {
  if (text == "none") return std::optional<int32_t>();
  try {
    size_t used = 0;
    const int id = std::stoi(text, &used);
    if (used == text.size()) return std::optional<int32_t>(id);
  } catch (const std::exception&) {  // no number, or beyond int: refused below
  }
  return InvalidError("BAD_USAGE", "--bos takes none or a token id, not \"" + text + "\"");
}

absl::StatusOr<int> ImportLlamacpp(const ImportCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto bos, ParseBos(command.bos));
  ASSAY_ASSIGN_OR_RETURN(const auto file, LlamacppLogits::Open(command.file));
  ASSAY_RETURN_IF_ERROR(WriteLlamacppSuite(*file, {bos, command.chunks_per_cluster}, command.out));
  const int64_t clusters =
      (file->chunks() + command.chunks_per_cluster - 1) / command.chunks_per_cluster;
  context.PrintJson(Json{{"suite", command.out},
                         {"contexts", file->chunks()},
                         {"context_length", file->context_length()},
                         {"source_clusters", clusters},
                         {"score_from", file->first_position()}});
  if (clusters < 8) {
    context.Warn(
        fmt::format("{} clusters of {} chunks: intervals need at least 8; take more chunks "
                    "when the file is written, or a smaller --chunks-per-cluster",
                    clusters, command.chunks_per_cluster));
  }
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
  auto command = std::make_shared<ImportCommand>();
  CLI::App* llamacpp = AddCommand(
      *import, context, "llamacpp-logits",
      "The chunks of a file of llama-perplexity --kl-divergence-base as contexts, so that an old "
      "panel goes on",
      "  assay suite import llamacpp-logits base.kld --bos none --out panel\n"
      "  assay suite import llamacpp-logits base.kld --bos 1 --out panel\n");
  llamacpp->add_option("FILE", command->file, "Logits file")->required();
  llamacpp->add_option("--out", command->out, "Suite folder to write")->required();
  llamacpp
      ->add_option(
          "--bos", command->bos,
          "Token id that the model wants first, or none. llama.cpp feeds it in place of every "
          "chunk's first id, and the file does not say whether it did "
          "(tokenizer.ggml.add_bos_token and bos_token_id of the GGUF do)")
      ->required();
  llamacpp
      ->add_option("--chunks-per-cluster", command->chunks_per_cluster,
                   "Consecutive chunks that count as one document in intervals")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  OnRun(llamacpp, context, [command, &context] { return ImportLlamacpp(*command, context); });
}

}  // namespace assay
