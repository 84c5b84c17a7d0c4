// Blobs as files: DIR/aa/bb/<sha256>, uploads in DIR/partial/<sha256>, damaged blobs that fsck has
// set aside in DIR/quarantine/<sha256>.

#ifndef ASSAY_STORAGE_BLOB_FILE_BLOB_STORE_H_
#define ASSAY_STORAGE_BLOB_FILE_BLOB_STORE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "storage/blob/blob_store.h"

namespace assay {

class DiskGuard;

struct FileBlobStoreOptions {
  std::string dir;
  uint64_t max_blob_bytes = uint64_t{64} << 30;
  uint64_t max_stored_bytes = 0;  // of all blobs together; 0: no limit
  // Asked before each new upload and every 64 MiB of one; may be null. Must outlive the store.
  DiskGuard* guard = nullptr;
  // An upload that nobody has gone on with for so long is dropped: at the start, and hourly while
  // others arrive.
  int64_t abandoned_ms = int64_t{7} * 24 * 3600 * 1000;
};

// Publishing: write to the partial file while hashing, fsync, rename, fsync of the folder. A crash
// at any point leaves no blob or the whole blob. Kill points "blob:partial_written",
// "blob:partial_synced", "blob:renamed", "blob:published".
class FileBlobStore : public BlobStore {
 public:
  static absl::StatusOr<std::unique_ptr<FileBlobStore>> Open(const FileBlobStoreOptions& options);
  // Without making or tidying anything: for looking at what is there.
  static std::unique_ptr<FileBlobStore> Existing(const FileBlobStoreOptions& options);

  bool Has(const std::string& sha256) const override;
  bool HasIntact(const std::string& sha256) const override;
  absl::StatusOr<uint64_t> Size(const std::string& sha256) const override;
  absl::StatusOr<std::unique_ptr<BlobWriter>> Write(const std::string& sha256,
                                                    uint64_t size) override;
  absl::StatusOr<BlobWriteStatus> WriteStatus(const std::string& sha256) const override;
  absl::StatusOr<std::unique_ptr<BlobReader>> Read(const std::string& sha256) const override;
  absl::StatusOr<std::string> LocalPath(const std::string& sha256) const override;
  absl::Status Verify(const std::string& sha256) const override;
  absl::StatusOr<bool> DropDamaged(const std::string& sha256) override;
  absl::Status Remove(const std::string& sha256) override;
  absl::Status List(const std::function<absl::Status(const BlobInfo&)>& sink) const override;
  absl::Status Quarantine(const std::string& sha256) override;

  // Removes a blob that nobody has touched since `touched_before_ms`; false when somebody has, or
  // when it is not there.
  absl::StatusOr<bool> RemoveIfOld(const std::string& sha256, int64_t touched_before_ms);

  // Bytes of all blobs, as counted at the start and since.
  uint64_t stored_bytes() const { return stored_bytes_; }

  struct Partials {
    uint64_t files = 0, bytes = 0;
  };
  // Unfinished uploads that nobody writes and nobody has gone on with for `idle_ms`; with `drop`
  // they are removed.
  absl::StatusOr<Partials> AbandonedPartials(int64_t idle_ms, bool drop);

  // Bytes of blobs published since this object was made.
  uint64_t written_bytes() const { return written_bytes_; }

 private:
  class Writer;
  explicit FileBlobStore(FileBlobStoreOptions options) : options_(std::move(options)) {}
  std::string FinalPath(const std::string& sha256) const;
  std::string PartialPath(const std::string& sha256) const;
  void Release(const std::string& sha256);
  void DropAbandoned();
  absl::StatusOr<Partials> PartialsLocked(int64_t idle_ms, bool drop) const;  // holds mutex_
  absl::Status CheckQuota(uint64_t bytes) const;
  void Touch(const std::string& path) const;

  FileBlobStoreOptions options_;
  mutable std::mutex mutex_;
  std::set<std::string> writing_;
  int64_t sweep_ms_ = 0;  // monotonic; when abandoned uploads are looked for again
  std::atomic<uint64_t> written_bytes_{0};
  std::atomic<uint64_t> stored_bytes_{0};
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BLOB_FILE_BLOB_STORE_H_
