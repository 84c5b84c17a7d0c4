// Shard views of a published suite (specs: qwen-suites 1.7).

#ifndef ASSAY_STORAGE_FORMAT_SUITE_VIEW_H_
#define ASSAY_STORAGE_FORMAT_SUITE_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/format/suite.h"

namespace assay {

inline constexpr int64_t kPublishedShardSize = 512;

struct SuiteViewOptions {
  int64_t shard = 0;
  int64_t size = kPublishedShardSize;  // contexts of a shard; the last one may have fewer
  std::string parent;                  // goes to shard.parent_suite: a name, never opened
};

// The bytes of the view's suite-manifest.json: the parent's manifest with the rows at positions
// size * shard ... of its list, the counts and the digest of these rows, and a `shard` block. All
// other blocks describe the parent. SHARD_MISSING when there are no such rows, SUITE_INVALID when
// the parent is a view itself.
absl::StatusOr<std::string> BuildSuiteView(const Suite& parent, const SuiteViewOptions& options);

// Number of shards of `size` contexts.
int64_t SuiteShards(const Suite& parent, int64_t size);

// Why `view` is not the shard of `parent` that it says it is: SUITE_MISMATCH or the errors of
// BuildSuiteView; OK when its manifest is, byte for byte, that view.
absl::Status CheckSuiteView(const Suite& view, const Suite& parent);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_SUITE_VIEW_H_
