// assayd gc: removes what nothing needs any more.

#ifndef ASSAY_SERVER_MAINTAIN_COLLECT_H_
#define ASSAY_SERVER_MAINTAIN_COLLECT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"

namespace assay {

struct CollectOptions {
  bool dry_run = false;
  int64_t keep_runs_ms = int64_t{30} * 86'400'000;  // ended runs stay for so long
  int64_t grace_ms = 86'400'000;  // blobs and uploads touched within this time stay
};

struct Collected {
  uint64_t runs = 0;   // removed as a whole: nothing of them was sealed
  uint64_t units = 0;  // of ended runs, sealed or not
  uint64_t blobs = 0, bytes = 0;
  uint64_t partials = 0, partial_bytes = 0;
  std::string ToText(bool dry_run) const;
};

// Rows first, then blobs that nothing names (references.h). With `dry_run` only counts; blobs that
// only expired runs name are not counted then. GC_REFUSED when what a suite names is not known.
// Kill points "gc:expired", "gc:removed".
absl::StatusOr<Collected> Collect(Engine* engine, const CollectOptions& options);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_COLLECT_H_
