// Names of the temporary files beside those that appear whole (files.h, atomic_file.h), and what a
// killed process left of them.

#ifndef ASSAY_STORAGE_BASE_TEMPORARY_FILE_H_
#define ASSAY_STORAGE_BASE_TEMPORARY_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace assay {

// "PATH.tmp.PID.N", N growing with every call of this process.
std::string TemporaryName(std::string_view path);

// Whether `name` is what TemporaryName makes of `file` in any process.
bool IsTemporaryOf(std::string_view name, std::string_view file);

// Removes the temporary files in `folder` whose process is no more. OK when there is no folder.
absl::Status RemoveTemporaries(const std::string& folder);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_TEMPORARY_FILE_H_
