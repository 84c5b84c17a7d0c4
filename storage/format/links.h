// Links in folders that a person names: followed only as far as their target is still the folder's.

#ifndef ASSAY_STORAGE_FORMAT_LINKS_H_
#define ASSAY_STORAGE_FORMAT_LINKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace assay {

// PATH_UNSAFE naming link and target unless every one of `names`, relative to the folder `root`,
// lies, with links followed, in the folder or, when that is or lies in a snapshot of a Hugging Face
// cache (REPO/snapshots/REVISION), in REPO/blobs. `what` names the folder's kind ("model",
// "capture") in messages. `root` itself may lead through links.
absl::Status CheckLinksStayInside(const std::string& root, const std::vector<std::string>& names,
                                  const std::string& what);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_LINKS_H_
