// A folder of blobs by digest, bounded in bytes.

#ifndef ASSAY_WORKER_AGENT_BLOB_CACHE_H_
#define ASSAY_WORKER_AGENT_BLOB_CACHE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// Layout: DIR/xx/SHA256. Entries survive restarts, the least recently used ones go when the bound
// would be passed, and a pinned one never goes. A file is digested when it is first used after a
// start, and again when its inode or times have changed, so that bytes which turned bad on the disk
// are fetched anew and never computed with. Thread-safe. One process at a time may own DIR.
class BlobCache {
 public:
  // Keeps a blob from being evicted; movable, released by the destructor, which may outlive
  // nothing: the cache must live longer.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept;
    Pin& operator=(Pin&& other) noexcept;
    ~Pin();
    const std::string& path() const { return path_; }

   private:
    friend class BlobCache;
    Pin(BlobCache* cache, std::string sha256, std::string path)
        : cache_(cache), sha256_(std::move(sha256)), path_(std::move(path)) {}
    BlobCache* cache_ = nullptr;
    std::string sha256_, path_;
  };

  // Makes DIR when absent, lists it, removes left-over temporary files, evicts down to the bound.
  static absl::StatusOr<std::unique_ptr<BlobCache>> Open(const std::string& dir,
                                                         uint64_t max_bytes);

  // The blob, if it is here with that size and digest.
  absl::StatusOr<Pin> Find(const std::string& sha256, uint64_t size);  // BLOB_NOT_CACHED

  // The blob, fetched by `fetch` (which must leave exactly the verified blob at the path it gets)
  // when it is not here. Two callers of one digest share one fetch only by taking turns.
  // CACHE_FULL when pinned blobs leave no room for it.
  absl::StatusOr<Pin> Get(const std::string& sha256, uint64_t size,
                          const std::function<absl::Status(const std::string& path)>& fetch);

  // Takes over a file of this file system whose digest the caller has verified.
  absl::StatusOr<Pin> Adopt(const std::string& sha256, uint64_t size, const std::string& file);

  uint64_t bytes() const;
  uint64_t max_bytes() const { return max_bytes_; }

 private:
  struct Entry {
    uint64_t size = 0;
    int pins = 0;
    std::string verified;  // stamp of the file when its digest was right; "" = not looked at yet
    std::list<std::string>::iterator used;  // in lru_
  };
  BlobCache(std::string dir, uint64_t max_bytes) : dir_(std::move(dir)), max_bytes_(max_bytes) {}
  std::string PathOf(const std::string& sha256) const;
  absl::Status Load();
  // Whether the entry's file holds the blob; digests it when that is not known.
  bool Verify(const std::string& sha256, uint64_t size, Entry* entry) const;  // holds mutex_
  absl::Status MakeRoom(uint64_t size);                                       // holds mutex_
  void Insert(const std::string& sha256, uint64_t size);                      // holds mutex_
  Pin MakePin(const std::string& sha256);  // holds mutex_; the entry exists
  void Unpin(const std::string& sha256);

  const std::string dir_;
  const uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::mutex fetching_;  // held over a fetch; before mutex_
  std::map<std::string, Entry> entries_;
  std::list<std::string> lru_;  // least recently used first
  uint64_t bytes_ = 0;
};

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_BLOB_CACHE_H_
