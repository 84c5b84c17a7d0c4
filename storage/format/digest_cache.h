// SHA-256 of files, remembered: a model of many gigabytes is hashed once, not at every run.

#ifndef ASSAY_STORAGE_FORMAT_DIGEST_CACHE_H_
#define ASSAY_STORAGE_FORMAT_DIGEST_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace assay {

inline constexpr size_t kDigestCacheEntriesMax = 65536;

// Thread-safe. An entry is used only while device, inode, size and modification time (ns) are those
// it was made with; a file changed within the last two seconds is hashed but not remembered, since
// a second change could leave the same time stamp. The file may be shared by processes: the last
// writer wins, which costs a hash, never a wrong answer.
class DigestCache {
 public:
  // "" keeps the cache in memory. A missing, damaged or foreign file is an empty cache.
  static absl::StatusOr<std::unique_ptr<DigestCache>> Open(const std::string& path);

  // Follows links. FILE_MISSING and other file errors name the path.
  absl::StatusOr<std::string> FileSha256(const std::string& path);

  // Files hashed since Open (not answered from memory).
  uint64_t hashed() const;

 private:
  struct Key {
    uint64_t device, inode, size;
    int64_t mtime_ns;
    auto operator<=>(const Key&) const = default;
  };
  explicit DigestCache(std::string path) : path_(std::move(path)) {}
  static absl::StatusOr<Key> KeyOf(const std::string& path, bool* settled);
  void Load();
  absl::Status Save();  // holds mutex_

  const std::string path_;
  mutable std::mutex mutex_;
  std::map<Key, std::string> entries_;
  uint64_t hashed_ = 0;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_DIGEST_CACHE_H_
