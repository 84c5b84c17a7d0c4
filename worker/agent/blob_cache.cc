#include "worker/agent/blob_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

BlobCache::Pin::Pin(Pin&& other) noexcept { *this = std::move(other); }

BlobCache::Pin& BlobCache::Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  if (cache_ != nullptr) cache_->Unpin(sha256_);
  cache_ = std::exchange(other.cache_, nullptr);
  sha256_ = std::move(other.sha256_);
  path_ = std::move(other.path_);
  return *this;
}

BlobCache::Pin::~Pin() {
  if (cache_ != nullptr) cache_->Unpin(sha256_);
}

absl::StatusOr<std::unique_ptr<BlobCache>> BlobCache::Open(const std::string& dir,
                                                           uint64_t max_bytes) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(dir));
  std::unique_ptr<BlobCache> cache(new BlobCache(dir, max_bytes));
  ASSAY_RETURN_IF_ERROR(cache->Load());
  return cache;
}

std::string BlobCache::PathOf(const std::string& sha256) const {
  return JoinPath(JoinPath(dir_, sha256.substr(0, 2)), sha256);
}

absl::Status BlobCache::Load() {
  std::vector<std::tuple<int64_t, std::string, uint64_t>> found;  // by time of last use
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListDirectory(dir_));
  for (const std::string& folder : folders) {
    const std::string path = JoinPath(dir_, folder);
    if (folder.size() != 2 || !IsDirectory(path)) continue;
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
    for (const std::string& name : names) {
      const std::string file = JoinPath(path, name);
      struct stat info;
      if (!IsSha256Hex(name) || stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
        unlink(file.c_str());  // a fetch that was cut off
        continue;
      }
      found.emplace_back(info.st_mtim.tv_sec, name, static_cast<uint64_t>(info.st_size));
    }
  }
  std::sort(found.begin(), found.end());
  const std::lock_guard lock(mutex_);
  for (const auto& [time, name, size] : found) Insert(name, size);
  return MakeRoom(0);
}

absl::Status BlobCache::MakeRoom(uint64_t size) {
  for (auto candidate = lru_.begin();
       (size > max_bytes_ || bytes_ > max_bytes_ - size) && candidate != lru_.end();) {
    const auto entry = entries_.find(*candidate);
    if (entry->second.pins > 0) {
      ++candidate;
      continue;
    }
    if (unlink(PathOf(*candidate).c_str()) != 0 && errno != ENOENT) {
      return ErrnoError(errno, fmt::format("cannot remove {}", PathOf(*candidate)));
    }
    bytes_ -= entry->second.size;
    entries_.erase(entry);
    candidate = lru_.erase(candidate);
  }
  if (size > 0 && (size > max_bytes_ || bytes_ > max_bytes_ - size)) {
    return ExhaustedError(
        "CACHE_FULL", fmt::format("the cache {} may hold {} bytes, of which running work uses {}; "
                                  "{} more are needed: give the worker a larger --cache-bytes",
                                  dir_, max_bytes_, bytes_, size));
  }
  return absl::OkStatus();
}

void BlobCache::Insert(const std::string& sha256, uint64_t size) {
  const auto [entry, added] = entries_.try_emplace(sha256);
  if (!added) return;
  entry->second.size = size;
  entry->second.used = lru_.insert(lru_.end(), sha256);
  bytes_ += size;
}

BlobCache::Pin BlobCache::MakePin(const std::string& sha256) {
  Entry& entry = entries_.at(sha256);
  ++entry.pins;
  lru_.splice(lru_.end(), lru_, entry.used);
  return Pin(this, sha256, PathOf(sha256));
}

void BlobCache::Unpin(const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  --entries_.at(sha256).pins;
}

bool BlobCache::Verify(const std::string& sha256, uint64_t size, Entry* entry) const {
  const std::string path = PathOf(sha256);
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || static_cast<uint64_t>(info.st_size) != size) return false;
  const std::string stamp =
      fmt::format("{}:{}:{}.{}:{}.{}", info.st_dev, info.st_ino, info.st_mtim.tv_sec,
                  info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  if (entry->verified == stamp) return true;
  const absl::StatusOr<std::string> got = Sha256File(path);
  if (!got.ok() || *got != sha256) return false;
  entry->verified = stamp;
  return true;
}

absl::StatusOr<BlobCache::Pin> BlobCache::Find(const std::string& sha256, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(sha256);
  if (entry != entries_.end()) {
    // The file itself is asked, so that a cache that was tidied up by hand heals.
    if (entry->second.size == size && Verify(sha256, size, &entry->second)) return MakePin(sha256);
    if (entry->second.pins == 0) {
      unlink(PathOf(sha256).c_str());
      bytes_ -= entry->second.size;
      lru_.erase(entry->second.used);
      entries_.erase(entry);
    }
  }
  return NotFoundError("BLOB_NOT_CACHED", fmt::format("blob {} is not in {}", sha256, dir_));
}

absl::StatusOr<BlobCache::Pin> BlobCache::Get(
    const std::string& sha256, uint64_t size,
    const std::function<absl::Status(const std::string& path)>& fetch) {
  const std::lock_guard turn(fetching_);
  if (absl::StatusOr<Pin> here = Find(sha256, size); here.ok()) return here;
  {
    const std::lock_guard lock(mutex_);
    ASSAY_RETURN_IF_ERROR(MakeRoom(size));
  }
  const std::string path = PathOf(sha256);
  const std::string temporary = path + ".fetch";
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(path)));
  if (absl::Status status = fetch(temporary); !status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return Adopt(sha256, size, temporary);
}

absl::StatusOr<BlobCache::Pin> BlobCache::Adopt(const std::string& sha256, uint64_t size,
                                                const std::string& file) {
  if (absl::StatusOr<Pin> here = Find(sha256, size); here.ok()) {
    unlink(file.c_str());
    return here;
  }
  ASSAY_ASSIGN_OR_RETURN(const uint64_t on_disk, FileSize(file));
  if (on_disk != size) {
    return DataLossError("SIZE_MISMATCH", fmt::format("{} has {} bytes; blob {} should have {}",
                                                      file, on_disk, sha256, size));
  }
  const std::string path = PathOf(sha256);
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(path)));
  const std::lock_guard lock(mutex_);
  ASSAY_RETURN_IF_ERROR(MakeRoom(size));
  if (rename(file.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, fmt::format("cannot move {} to {}", file, path));
  }
  Insert(sha256, size);
  return MakePin(sha256);
}

uint64_t BlobCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace assay
