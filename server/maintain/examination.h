// One look at a whole data folder. Internal to server/maintain.

#ifndef ASSAY_SERVER_MAINTAIN_EXAMINATION_H_
#define ASSAY_SERVER_MAINTAIN_EXAMINATION_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/consistency.h"
#include "server/maintain/fsck.h"
#include "storage/blob/file_blob_store.h"
#include "storage/db/row.h"

namespace assay {

struct Examination {
  StoredRows rows;
  std::vector<Damage> damages;
  std::set<Family> unreadable;  // families of derived rows with rows that cannot be read
  bool rows_trusted = true;     // the chain is whole, so repairs may be committed to it
  bool anchor_unreadable = false;
  uint64_t batches = 0, row_count = 0, blobs = 0, blob_bytes = 0;
};

absl::StatusOr<Examination> Examine(const FsckOptions& options, const FileBlobStore& blobs);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_EXAMINATION_H_
