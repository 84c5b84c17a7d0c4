// Token files: a JSON list of integers, read without building a document (suites hold millions).

#ifndef ASSAY_STORAGE_FORMAT_TOKEN_LIST_H_
#define ASSAY_STORAGE_FORMAT_TOKEN_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

// Parses "[12, 345]", any JSON blanks allowed. `path` names the file in errors. SUITE_INVALID for
// anything but a list of integers; TOKEN_OUT_OF_RANGE for a negative id or one beyond 2^31 - 1.
absl::StatusOr<std::vector<int32_t>> ParseTokenList(std::string_view text, const std::string& path);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_TOKEN_LIST_H_
