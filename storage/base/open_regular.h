// Opening what should be a file and may be anything.

#ifndef ASSAY_STORAGE_BASE_OPEN_REGULAR_H_
#define ASSAY_STORAGE_BASE_OPEN_REGULAR_H_

#include <string>

#include "absl/status/statusor.h"

namespace assay {

// A descriptor to read a file with; the caller closes it. Folders, pipes, sockets and devices are
// refused (FILE_NOT_REGULAR) without waiting: the plain open of a pipe lasts until somebody writes
// to it. `more_flags` are added to those of open(2), such as O_NOFOLLOW.
absl::StatusOr<int> OpenRegular(const std::string& path, int more_flags = 0);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_OPEN_REGULAR_H_
