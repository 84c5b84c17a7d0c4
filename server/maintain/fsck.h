// assayd fsck: what is damaged in a data folder that no coordinator uses, and what of it can be
// repaired from the rest.

#ifndef ASSAY_SERVER_MAINTAIN_FSCK_H_
#define ASSAY_SERVER_MAINTAIN_FSCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/consistency.h"

namespace assay {

struct FsckOptions {
  std::string data_dir, anchor_path;  // as EngineOptions
  bool repair = false;
};

struct FsckReport {
  std::vector<Damage> found;  // before any repair
  std::vector<Damage> left;   // after it; the same without --repair
  uint64_t batches = 0, rows = 0, blobs = 0, blob_bytes = 0;

  std::string ToText() const;
  // 0 nothing is damaged (any more), 20 something is that only a backup brings back, 23 all of it
  // can be repaired.
  int ExitCode() const;
};

// Reads everything: chain, anchor, rows, log, and the bytes of every blob. Without `repair` nothing
// is changed. STORE_IN_USE, STORE_VERSION, FILE_*; errors of a repair that cannot be written.
absl::StatusOr<FsckReport> Fsck(const FsckOptions& options);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_FSCK_H_
