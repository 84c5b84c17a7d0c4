// The suite that a llama.cpp logits file contains: its chunks as contexts, so that an old panel
// goes on.

#ifndef ASSAY_STORAGE_LLAMACPP_SUITE_H_
#define ASSAY_STORAGE_LLAMACPP_SUITE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "storage/llamacpp/logits_file.h"

namespace assay {

struct LlamacppSuiteOptions {
  // The id that the tool fed in place of every chunk's first one, when the model wants a BOS. The
  // file doesn't say, so somebody who knows the model must; nothing: the model wants none.
  std::optional<int32_t> bos;
  // Consecutive chunks that count as one source document (the bootstrap's unit). The file doesn't
  // say where one text ends and the next begins.
  int64_t chunks_per_cluster = 8;
};

// Writes suite-manifest.json and tokens/ into the folder `dir`, made when missing; refuses one that
// holds a suite (OUT_NOT_EMPTY). The manifest records the file's digest, the rules and the window
// of scored positions, second half. Errors: TOKEN_OUT_OF_RANGE for a BOS outside the vocabulary,
// SUITE_INVALID for more contexts than a suite holds.
absl::Status WriteLlamacppSuite(const LlamacppLogits& file, const LlamacppSuiteOptions& options,
                                const std::string& dir);

}  // namespace assay

#endif  // ASSAY_STORAGE_LLAMACPP_SUITE_H_
