// Independent items computed by a few threads, with the error that one thread would have met first.

#ifndef ASSAY_STORAGE_BASE_FOR_EACH_INDEX_H_
#define ASSAY_STORAGE_BASE_FOR_EACH_INDEX_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace assay {

// Calls `body` for 0 to count - 1, each once, on the caller's thread and `threads` - 1 others;
// `body` is safe to call from several at a time. After an error no further items are begun by the
// thread that met it. Returns the error of the lowest index among those that failed, or OK.
absl::Status ForEachIndex(int64_t count, int threads,
                          const std::function<absl::Status(int64_t)>& body);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_FOR_EACH_INDEX_H_
