// The repairs of fsck. Internal to server/maintain.

#ifndef ASSAY_SERVER_MAINTAIN_REPAIR_H_
#define ASSAY_SERVER_MAINTAIN_REPAIR_H_

#include "absl/status/status.h"
#include "server/maintain/examination.h"

namespace assay {

// Does what can be done: sets damaged blobs aside, makes derived rows, the anchor and sealed
// documents again. What cannot be made is left as it is.
absl::Status RepairStore(const FsckOptions& options, const Examination& found,
                         FileBlobStore* blobs);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_REPAIR_H_
