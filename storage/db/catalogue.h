// The catalogue: all rows of the coordinator in a key-value store, with its own proof that nothing
// was lost.
//
// Every Commit is one durable batch that also appends a link to a hash chain, and then moves
// the anchor file. Open refuses (STORE_DAMAGED, naming what) when the chain has a gap, a hash
// differs, or the chain is shorter than the anchor: RocksDB by itself opens with half of the
// acknowledged writes after one flipped bit and says nothing.

#ifndef ASSAY_STORAGE_DB_CATALOGUE_H_
#define ASSAY_STORAGE_DB_CATALOGUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/db/anchor.h"
#include "storage/db/kv_store.h"
#include "storage/db/row.h"
#include "storage/seal/merkle.h"

namespace assay {

// Tables of the store: one for each Family, in its order, then the chain of batches.
inline constexpr size_t kChainTable = kFamilies;
inline constexpr size_t kCatalogueTables = kFamilies + 1;

struct CatalogueOptions {
  std::string dir;          // made when missing: LOCK, anchor, db/
  std::string anchor_path;  // "" = dir/anchor; better on another file system
  // For repair alone: an anchor that is missing or behind is made from the chain, and rows are
  // written without reading those that lie there.
  bool repair = false;
};
std::string AnchorPath(const CatalogueOptions& options);

// Where a checkpoint was taken.
struct CatalogueMark {
  uint64_t seq = 0;
  std::string hash_hex;
  uint64_t log_size = 0;
};

// One writer; readers may run beside it.
class Catalogue : public LogReader {
 public:
  // Over RocksDB in a folder (rocks_store.cc). STORE_IN_USE when another process has the folder;
  // STORE_DAMAGED; STORE_VERSION; FILE_*.
  static absl::StatusOr<std::unique_ptr<Catalogue>> Open(const CatalogueOptions& options);
  // Over any store with kCatalogueTables tables. `where` starts messages. STORE_DAMAGED;
  // STORE_VERSION; the store's errors.
  static absl::StatusOr<std::unique_ptr<Catalogue>> Open(std::unique_ptr<KvStore> store,
                                                         std::unique_ptr<Anchor> anchor,
                                                         const std::string& where,
                                                         bool repair = false);
  ~Catalogue() override;
  Catalogue(const Catalogue&) = delete;
  Catalogue& operator=(const Catalogue&) = delete;

  // Puts every row (a later row with the same key wins) and removes those with the keys of
  // `removed` in one atomic batch; durable when it returns. After an error the object may not be
  // used: what is on disk is known only after opening again. STORE_WRITE_FAILED, DISK_FULL. Kill
  // points "db:before_commit", "db:committed", "db:anchored".
  absl::Status Commit(const std::vector<Row>& rows, const std::vector<Row>& removed = {});

  // Calls `sink` for every row. Stops at the first error.
  absl::Status LoadAll(const std::function<void(Row)>& sink) const;

  // Calls `sink` for the stored bytes of every row of every family. Stops at the first error.
  absl::Status ForEachValue(const std::function<void(std::string_view)>& sink) const;

  // A consistent copy in the folder `dest` as a catalogue of its own with anchor. Commits wait
  // meanwhile. Files are hard links where the file system allows them.
  absl::StatusOr<CatalogueMark> Checkpoint(const std::string& dest) const;

  // For repair alone: empties a family whose rows can be made again from others.
  absl::Status MakeAnew(Family family);

  // Stored events of a run with revision > `after`, oldest first, at most `limit`.
  absl::StatusOr<std::vector<EventRow>> Events(std::string_view run, uint64_t after,
                                               size_t limit) const;

  // Results that differ from an accepted one, by unit from `first_unit` on, until `sink` is false.
  absl::Status ForEachEvidence(uint64_t first_unit,
                               const std::function<bool(EvidenceRow)>& sink) const;

  // LogReader over committed rows.
  uint64_t size() const override;
  absl::StatusOr<DigestBytes> Node(uint32_t level, uint64_t index) const override;

  // Whether reading has met damaged rows since the start: the store must not serve any more.
  bool damaged() const { return damaged_; }

  uint64_t seq() const;  // committed batches
  std::string head_hash() const;

 private:
  Catalogue(std::unique_ptr<KvStore> store, std::unique_ptr<Anchor> anchor, std::string where);
  absl::Status VerifyChain(bool repair);
  absl::Status ReadLogSize(bool repair);
  absl::StatusOr<DigestBytes> ReadNode(uint32_t level, uint64_t index) const;
  absl::Status Noted(absl::Status read) const;  // `read`; remembers damage

  std::unique_ptr<KvStore> store_;
  std::unique_ptr<Anchor> anchor_;
  std::string where_;
  mutable std::mutex mutex_;  // seq_, hash_
  uint64_t seq_ = 0;
  std::string hash_ = std::string(32, '\0');
  std::atomic<uint64_t> log_size_{0};
  mutable std::atomic<bool> damaged_{false};
};

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_CATALOGUE_H_
