// What is wrong with a catalogue that may not open: everything is looked at, nothing is changed.

#ifndef ASSAY_STORAGE_DB_INSPECT_H_
#define ASSAY_STORAGE_DB_INSPECT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/db/catalogue.h"
#include "storage/db/chain_walk.h"
#include "storage/db/row.h"

namespace assay {

struct CatalogueFinding {
  enum class Part {
    kDatabase,  // RocksDB does not open the database, or only without damaged parts
    kChain,     // a link is missing, changed or unreadable
    kAnchor,    // the anchor file and the chain disagree, or the file cannot be read
    kRows,      // rows of `family` cannot be read
  };
  Part part = Part::kDatabase;
  Family family = Family::kMeta;  // of kRows
  AnchorState anchor = AnchorState::kAgrees;
  std::string what;
};

struct CatalogueInspection {
  std::vector<CatalogueFinding> findings;
  uint64_t seq = 0;      // batches whose links follow each other from the first on
  std::string hash_hex;  // of the last of them
};

// Reads the whole catalogue without writing a byte (but for dir/LOCK) and calls `sink` for every
// row of every family that can be read. Damage is a finding. STORE_IN_USE, FILE_*, and
// STORE_VERSION when a newer build has written something.
absl::StatusOr<CatalogueInspection> InspectCatalogue(const CatalogueOptions& options,
                                                     const std::function<void(Row)>& sink);

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_INSPECT_H_
