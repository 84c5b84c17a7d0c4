// Writes the HTML pages of a result: index.html, and LABEL/report.html for every candidate.
//
// Pages are a pure function of summary.json, the reports and position arrays, the suite's tokens
// and the reference's vocabulary. Nothing here is sealed: the pages can be made again at any time.

#ifndef ASSAY_CLIENT_HTML_WRITE_PAGES_H_
#define ASSAY_CLIENT_HTML_WRITE_PAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

inline constexpr uint64_t kPageBytesMax = uint64_t{3} << 20;

struct PagesRequest {
  std::string out;     // folder of the result
  std::string dir;     // where to write; "" = `out`
  std::string suite;   // suite folder, for the tokens that follow; "" = not shown
  std::string tokens;  // GGUF file, tokenizer.json or a folder with one, for texts; "" = ids only
};

struct PagesWritten {
  std::string index;               // path of index.html
  std::vector<std::string> pages;  // paths of the candidates' pages
  uint64_t largest = 0;            // bytes of the largest file
};

// SUITE_MISMATCH when `suite` is not the one that was scored; DIGEST_MISMATCH or SUMMARY_MISMATCH
// when a file was changed; PAGE_TOO_LARGE beyond kPageBytesMax; FILE_MISSING, and those of the
// files. Memory does not depend on the number of positions.
absl::StatusOr<PagesWritten> WritePages(const PagesRequest& request);

// Whether a vocabulary can be read from `path`.
bool TokensReadable(const std::string& path);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_WRITE_PAGES_H_
