// What has to be said about a logits file of llama.cpp that it does not say itself.

#ifndef ASSAY_CLIENT_CLI_LLAMACPP_OPTIONS_H_
#define ASSAY_CLIENT_CLI_LLAMACPP_OPTIONS_H_

#include <string>

#include "client/cli/command.h"
#include "storage/llamacpp/suite.h"

namespace assay {

struct LlamacppImportOptions {
  std::string file, out, bos;
  int64_t chunks_per_cluster = 8;
};

// FILE, --out, --bos and --chunks-per-cluster.
void AddLlamacppImportOptions(CLI::App* command, LlamacppImportOptions* options);

// BAD_USAGE for a --bos that is neither "none" nor a token id.
absl::StatusOr<LlamacppSuiteOptions> SuiteOptionsOf(const LlamacppImportOptions& options);

// Warns when `chunks` give too few clusters for intervals; their number.
int64_t WarnOfFewClusters(const LlamacppImportOptions& options, int64_t chunks,
                          CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_LLAMACPP_OPTIONS_H_
