// The token ids of single contexts of a suite; the whole suite never lies in memory.

#ifndef ASSAY_CLIENT_HTML_SUITE_TOKENS_H_
#define ASSAY_CLIENT_HTML_SUITE_TOKENS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/suite.h"

namespace assay {

class SuiteTokens {
 public:
  // Reads the manifest of a suite folder. SUITE_INVALID, FILE_MISSING, ...
  static absl::StatusOr<SuiteTokens> Open(const std::string& dir);

  const std::string& suite_token_sha256() const { return suite_.suite_token_sha256; }

  // All ids of context `index`, checked by digest. CONTEXT_MISSING, DIGEST_MISMATCH, and those of
  // the file.
  absl::StatusOr<std::vector<int32_t>> Context(int64_t index) const;

 private:
  std::string dir_;
  Suite suite_;
  std::map<int64_t, size_t> rows_;
};

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_SUITE_TOKENS_H_
