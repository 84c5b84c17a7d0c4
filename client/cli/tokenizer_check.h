// Whether a suite's token ids were made with the tokenizer of the model that they are fed to.

#ifndef ASSAY_CLIENT_CLI_TOKENIZER_CHECK_H_
#define ASSAY_CLIENT_CLI_TOKENIZER_CHECK_H_

#include <string>

#include "storage/base/json.h"
#include "storage/format/digest_cache.h"

namespace assay {

// A sentence for people when the suite says which tokenizer made it (build.tokenizer of
// suite-manifest.json, as assay-suite build writes it), the model at `model_path` has one of the
// same kind (a GGUF file's own, or tokenizer.json of a folder), and the two differ. "" when they
// are the same or cannot be compared: ids beyond the vocabulary are refused elsewhere, and a
// difference may mean nothing (a file written anew), so it is a warning. `cache` may be null.
std::string TokenizerDifference(const Json& suite_manifest, const std::string& model_path,
                                DigestCache* cache);

// What assay-suite records as vocabulary_sha256 of a GGUF file: the SHA-256 of its tokens, their
// types, merges or scores, and pre-tokenizer. "" for a tokenizer that it does not read.
std::string GgufVocabularySha256(const std::string& path);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_TOKENIZER_CHECK_H_
