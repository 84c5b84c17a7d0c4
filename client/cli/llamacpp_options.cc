#include "client/cli/llamacpp_options.h"

#include <optional>

#include "fmt/format.h"
#include "storage/base/status.h"

namespace assay {

void AddLlamacppImportOptions(CLI::App* command, LlamacppImportOptions* options) {
  command->add_option("FILE", options->file, "File of llama-perplexity --kl-divergence-base")
      ->required();
  command->add_option("--out", options->out, "Folder to write")->required();
  command
      ->add_option(
          "--bos", options->bos,
          "Token id that the model wants first, or none. llama.cpp feeds it in place of every "
          "chunk's first id, and the file does not say whether it did "
          "(tokenizer.ggml.add_bos_token and bos_token_id of the GGUF do)")
      ->required();
  command
      ->add_option("--chunks-per-cluster", options->chunks_per_cluster,
                   "Consecutive chunks that count as one document in intervals")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

absl::StatusOr<LlamacppSuiteOptions> SuiteOptionsOf(const LlamacppImportOptions& options) {
  LlamacppSuiteOptions out;
  out.chunks_per_cluster = options.chunks_per_cluster;
  if (options.bos == "none") return out;
  try {
    size_t used = 0;
    const int id = std::stoi(options.bos, &used);
    if (used == options.bos.size()) {
      out.bos = id;
      return out;
    }
  } catch (const std::exception&) {  // no number, or beyond int: refused below
  }
  return InvalidError("BAD_USAGE", "--bos takes none or a token id, not \"" + options.bos + "\"");
}

int64_t WarnOfFewClusters(const LlamacppImportOptions& options, int64_t chunks,
                          CliContext& context) {
  const int64_t clusters = (chunks + options.chunks_per_cluster - 1) / options.chunks_per_cluster;
  if (clusters < 8) {
    context.Warn(
        fmt::format("{} clusters of {} chunks: intervals need at least 8; take more chunks "
                    "when the file is written, or a smaller --chunks-per-cluster",
                    clusters, options.chunks_per_cluster));
  }
  return clusters;
}

}  // namespace assay
