#include "storage/format/digest_cache.h"

#include <sys/stat.h>

#include <cerrno>
#include <ctime>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int64_t kSettleNanos = 2'000'000'000;
constexpr uint64_t kCacheBytesMax = 64 << 20;
constexpr std::string_view kSchema = "assay-digest-cache/1";

int64_t Nanos(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DigestCache>> DigestCache::Open(const std::string& path) {
  std::unique_ptr<DigestCache> cache(new DigestCache(path));
  if (!path.empty()) cache->Load();
  return cache;
}

absl::StatusOr<DigestCache::Key> DigestCache::KeyOf(const std::string& path, bool* settled) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, "looking up " + path);
  if (!S_ISREG(info.st_mode))
    return InvalidError("FILE_NOT_REGULAR", path + " is not a regular file");
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *settled = Nanos(now) - Nanos(info.st_mtim) > kSettleNanos;
  return Key{info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), Nanos(info.st_mtim)};
}

absl::StatusOr<std::string> DigestCache::FileSha256(const std::string& path) {
  bool settled = false;
  ASSAY_ASSIGN_OR_RETURN(const Key before, KeyOf(path, &settled));
  {
    std::lock_guard lock(mutex_);
    if (const auto it = entries_.find(before); it != entries_.end()) return it->second;
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(path));
  bool ignored = false;
  ASSAY_ASSIGN_OR_RETURN(const Key after, KeyOf(path, &ignored));
  std::lock_guard lock(mutex_);
  ++hashed_;
  if (before != after || !settled) return digest;
  if (entries_.size() >= kDigestCacheEntriesMax) entries_.clear();
  entries_[before] = digest;
  // A cache that cannot be written costs time at the next run, nothing else.
  if (!path_.empty()) Save().IgnoreError();
  return digest;
}

uint64_t DigestCache::hashed() const {
  std::lock_guard lock(mutex_);
  return hashed_;
}

void DigestCache::Load() {
  const auto json = FileExists(path_) ? ReadJsonFile(path_, kCacheBytesMax)
                                      : absl::StatusOr<Json>(Json::object());
  if (!json.ok() || !json->is_object() || json->value("schema", Json()) != kSchema) return;
  const JsonFields fields(*json, path_);
  const auto list = fields.Array("entries");
  if (!list.ok()) return;
  for (const Json& row : **list) {
    const JsonFields entry(row, path_);
    const auto device = entry.Int("device", 0, INT64_MAX);
    const auto inode = entry.Int("inode", 0, INT64_MAX);
    const auto size = entry.Int("size", 0, INT64_MAX);
    const auto mtime = entry.Int("mtime_ns", INT64_MIN, INT64_MAX);
    const auto digest = entry.Sha256("sha256");
    if (!device.ok() || !inode.ok() || !size.ok() || !mtime.ok() || !digest.ok()) continue;
    entries_[Key{static_cast<uint64_t>(*device), static_cast<uint64_t>(*inode),
                 static_cast<uint64_t>(*size), *mtime}] = *digest;
  }
}

absl::Status DigestCache::Save() {
  Json list = Json::array();
  for (const auto& [key, digest] : entries_) {
    Json row = Json::object();
    row["device"] = key.device;
    row["inode"] = key.inode;
    row["size"] = key.size;
    row["mtime_ns"] = key.mtime_ns;
    row["sha256"] = digest;
    list.push_back(std::move(row));
  }
  Json out = Json::object();
  out["schema"] = std::string(kSchema);
  out["entries"] = std::move(list);
  return WriteFile(path_, PythonPrettyJson(out, 0));
}

}  // namespace assay
