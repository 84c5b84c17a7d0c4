#include "storage/llamacpp/suite.h"

#include <cstdio>
#include <set>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

std::string Numbered(const char* format, int64_t number) {
  char text[64];
  snprintf(text, sizeof text, format, static_cast<long>(number));
  return text;
}

absl::Status Check(const LlamacppLogits& file, const LlamacppSuiteOptions& options,
                   const std::string& dir) {
  if (FileExists(JoinPath(dir, "suite-manifest.json"))) {
    return PreconditionError("OUT_NOT_EMPTY", dir + " holds a suite already; name another folder");
  }
  if (options.bos && (*options.bos < 0 || *options.bos >= file.vocab_size())) {
    return InvalidError("TOKEN_OUT_OF_RANGE", "BOS id " + std::to_string(*options.bos) +
                                                  " is outside the vocabulary of " +
                                                  std::to_string(file.vocab_size()));
  }
  if (file.chunks() > kSuiteContextsMax || options.chunks_per_cluster < 1) {
    return InvalidError("SUITE_INVALID", file.path() + ": " + std::to_string(file.chunks()) +
                                             " chunks; a suite holds up to " +
                                             std::to_string(kSuiteContextsMax) +
                                             " contexts, and a cluster at least one");
  }
  return absl::OkStatus();
}

Json Provenance(const LlamacppLogits& file, const LlamacppSuiteOptions& options,
                const std::string& digest) {
  Json out;
  out["format"] = "llama.cpp logits file";
  out["coding"] = std::string(LlamacppCodingName(file.coding()));
  out["file"] = BaseName(file.path());
  out["sha256"] = digest;
  out["tokenization"] =
      "by llama.cpp: special tokens in the text are plain text; chunks do not overlap, the rest of "
      "the text was left out";
  if (options.bos) {
    out["bos"] = {{"id", *options.bos}, {"rule", "stands in place of every chunk's first id"}};
  } else {
    out["bos"] = nullptr;
  }
  out["cluster_rule"] = "consecutive chunks of one text, " +
                        std::to_string(options.chunks_per_cluster) +
                        " to a cluster; where documents end is not known";
  return out;
}

}  // namespace

absl::Status WriteLlamacppSuite(const LlamacppLogits& file, const LlamacppSuiteOptions& options,
                                const std::string& dir) {
  ASSAY_RETURN_IF_ERROR(Check(file, options, dir));
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(file.path()));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(JoinPath(dir, "tokens")));
  Json rows = Json::array();
  std::set<std::string> clusters;
  Sha256 all;
  for (int64_t c = 0; c < file.chunks(); ++c) {
    const auto stored = file.Tokens(c);
    std::vector<int32_t> tokens(stored.begin(), stored.end());
    if (options.bos) tokens[0] = *options.bos;
    const std::string bytes = TokenFileBytes(tokens),
                      name = Numbered("tokens/context-%04ld.json", c);
    const std::string cluster = Numbered("part-%04ld", c / options.chunks_per_cluster);
    const std::string token_digest = Sha256Hex(bytes);
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(dir, name), bytes));
    all.Update(token_digest);
    clusters.insert(cluster);
    rows.push_back({{"index", c},
                    {"stratum", "text"},
                    {"source_cluster", cluster},
                    {"file", name},
                    {"tokens", file.context_length()},
                    {"token_sha256", token_digest},
                    {"partition", "analysis"},
                    {"sentinel", c < 2}});
  }
  Json manifest;
  manifest["schema"] = "qwen38-distribution-fidelity/6";
  manifest["model"] = "not stated by " + BaseName(file.path());
  manifest["context_length"] = file.context_length();
  manifest["scored_positions_per_context"] = file.context_length() - 1;
  manifest["contexts"] = file.chunks();
  manifest["total_scored_positions"] = file.chunks() * (file.context_length() - 1);
  manifest["vocab_size"] = file.vocab_size();
  manifest["window"] = {{"name", "second-half"},
                        {"score_from", file.first_position()},
                        {"scored_positions_per_context", file.rows_per_chunk()}};
  manifest["imported_from"] = Provenance(file, options, digest);
  manifest["partitions"] = {{"analysis", file.chunks()}};
  manifest["strata"] = {{"text", file.chunks()}};
  manifest["source_clusters"] = clusters.size();
  manifest["context_index"] = std::move(rows);
  manifest["suite_token_sha256"] = all.FinishHex();
  return WriteFileAtomic(JoinPath(dir, "suite-manifest.json"), PythonPrettyJson(manifest));
}

}  // namespace assay
