// Which blobs something stored still names.

#ifndef ASSAY_SERVER_MAINTAIN_REFERENCES_H_
#define ASSAY_SERVER_MAINTAIN_REFERENCES_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/blob/blob_store.h"
#include "storage/db/catalogue.h"

namespace assay {

struct References {
  std::vector<BlobInfo> blobs;  // all there are, by name
  std::set<std::string> named;  // those of them that something names
  // Suites whose manifest cannot be read: what it names is not known, so nothing may be removed.
  std::vector<std::string> unreadable;
};

// A blob counts as named when its digest occurs anywhere in the stored bytes of any row, in a
// suite's manifest, or in a sealed report, execution record or receipt. No list of fields has to be
// kept up to date for this, and what a receipt names is never missed.
absl::StatusOr<References> FindReferences(const Catalogue& catalogue, const BlobStore& blobs);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_REFERENCES_H_
