// Suites in the published manifest form (specs: qwen-suites 1; schemas
// qwen38- and glm53flash-distribution-fidelity/1../6, by the keys present).
//
// A folder holds suite-manifest.json and tokens/context-NNNN.json; a shard view may lack `tokens`,
// then the parent folder's is used.

#ifndef ASSAY_STORAGE_FORMAT_SUITE_H_
#define ASSAY_STORAGE_FORMAT_SUITE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

inline constexpr int64_t kSuiteContextsMax = 1 << 20;
inline constexpr int64_t kSuiteContextLengthMax = 1 << 20;
inline constexpr uint64_t kSuiteManifestBytesMax = uint64_t{256} << 20;

struct SuiteContext {
  int64_t index = 0;  // the context's number; a shard view keeps the parent's
  std::string stratum;
  std::string source_cluster;  // bootstrap unit
  std::string file;            // relative to the folder, safe
  std::string token_sha256;
  std::string partition;  // "analysis" when the manifest has none
  bool sentinel = false;
  std::vector<int32_t> tokens;  // context_length ids; empty after ParseSuiteManifest
};

struct Suite {
  std::string schema;
  int64_t context_length = 0;
  int64_t vocab_size = 0;   // 0: unknown
  int64_t hidden_size = 0;  // 0: unknown
  std::string model;        // a name, not an identity
  std::vector<SuiteContext> contexts;
  std::string suite_token_sha256;
  std::string manifest_sha256;  // of the manifest file's bytes
  Json manifest;
};

// Reads and verifies a suite folder: counts, unique indices and file names, every token digest, the
// suite digest, and every id in [0, vocab_size). Errors name the file and say what to do:
// FILE_MISSING, SUITE_INVALID, DIGEST_MISMATCH, TOKEN_OUT_OF_RANGE, SHAPE_MISMATCH, JSON_INVALID,
// FIELD_*.
absl::StatusOr<Suite> ReadSuite(const std::string& dir);

// As above for the manifest alone (bytes of the file, its name for errors): everything but token
// files is checked; `tokens` stay empty.
absl::StatusOr<Suite> ParseSuiteManifest(std::string_view manifest_bytes, std::string_view where);

// TOKEN_OUT_OF_RANGE, naming context and position, when an id is not below `vocab_size`: for a
// suite that states no vocabulary, or one that meets another model.
absl::Status CheckTokensBelow(const Suite& suite, int64_t vocab_size);

// Positions in suite.contexts selected by `filter`: "all" or "" every row, "sentinel", else the
// rows of that partition. FILTER_EMPTY when nothing is selected.
absl::StatusOr<std::vector<size_t>> SelectContexts(const Suite& suite, std::string_view filter);

// At most `limit` (> 0) of `selected`, in the same order, spread over the strata: the strata take
// turns, in the order in which they first appear in `selected`, until `limit` contexts are shared
// out (one that has no more is passed over); a stratum that got q of its m contexts gives those at
// floor((2 i + 1) m / (2 q)), i = 0 .. q - 1, of its own order.
std::vector<size_t> LimitContexts(const Suite& suite, const std::vector<size_t>& selected,
                                  int64_t limit);

// The published bytes of a token file: "[12, 345]".
std::string TokenFileBytes(const std::vector<int32_t>& tokens);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_SUITE_H_
