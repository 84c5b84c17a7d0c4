#include "storage/blob/file_blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/blob/disk_guard.h"

namespace assay {
namespace {

constexpr size_t kHashPieceBytes = size_t{1} << 20;
constexpr uint64_t kGuardEveryBytes = uint64_t{64} << 20;
constexpr int64_t kSweepEveryMs = 3'600'000;

absl::Status CheckName(const std::string& sha256) {
  if (IsSha256Hex(sha256)) return absl::OkStatus();
  return InvalidError("DIGEST_INVALID",
                      std::string("\"")
                          .append(sha256, 0, 80)
                          .append("\" is not a SHA-256 of 64 lower-case hex characters"));
}

absl::Status Missing(const std::string& sha256) {
  return NotFoundError("BLOB_MISSING", "blob " + sha256 + " is not in the store; upload it first");
}

class FileReader : public BlobReader {
 public:
  FileReader(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}
  ~FileReader() override { ::close(fd_); }
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, std::span<uint8_t> out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      return InvalidError("OFFSET_MISMATCH", "offset " + std::to_string(offset) +
                                                 " lies beyond the blob's " +
                                                 std::to_string(size_) + " bytes");
    }
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "reading " + path_);
      if (n == 0)
        return DataLossError("BLOB_CORRUPT",
                             path_ + " has become shorter; restore it from a backup");
      done += static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  int fd_;
  uint64_t size_;
};

absl::StatusOr<std::unique_ptr<FileReader>> OpenReader(const std::string& path,
                                                       const std::string& sha256) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT ? Missing(sha256) : ErrnoError(errno, "opening " + path);
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    const int error = errno;
    ::close(fd);
    return ErrnoError(error, "reading " + path);
  }
  return std::make_unique<FileReader>(path, fd, static_cast<uint64_t>(st.st_size));
}

absl::Status HashAll(const FileReader& reader, Sha256* hash) {
  std::vector<uint8_t> piece(kHashPieceBytes);
  for (uint64_t at = 0; at < reader.size(); at += piece.size()) {
    const std::span<uint8_t> part(piece.data(),
                                  std::min<uint64_t>(piece.size(), reader.size() - at));
    ASSAY_RETURN_IF_ERROR(reader.ReadAt(at, part));
    hash->Update(part);
  }
  return absl::OkStatus();
}

}  // namespace

class FileBlobStore::Writer : public BlobWriter {
 public:
  Writer(FileBlobStore* store, std::string sha256, uint64_t size)
      : store_(store), sha256_(std::move(sha256)), size_(size) {}
  ~Writer() override {
    if (fd_ >= 0) ::close(fd_);
    store_->Release(sha256_);
  }

  // Opens the partial file and hashes what is there.
  absl::Status Start() {
    const std::string path = store_->PartialPath(sha256_);
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd_ < 0) return ErrnoError(errno, "opening " + path);
    ASSAY_ASSIGN_OR_RETURN(const auto reader, OpenReader(path, sha256_));
    if (reader->size() > size_) {
      if (::ftruncate(fd_, 0) != 0) return ErrnoError(errno, "truncating " + path);
      return absl::OkStatus();
    }
    ASSAY_RETURN_IF_ERROR(HashAll(*reader, &hash_));
    offset_ = reader->size();
    return absl::OkStatus();
  }
  void AlreadyComplete() {
    offset_ = size_;
    complete_ = true;
  }

  uint64_t offset() const override { return offset_; }

  absl::Status Append(std::span<const uint8_t> bytes) override {
    if (bytes.size() > size_ - offset_) {
      return InvalidError("BLOB_SIZE", "blob " + sha256_ + ": more bytes than the announced " +
                                           std::to_string(size_));
    }
    if (store_->options_.guard != nullptr && (since_guard_ += bytes.size()) >= kGuardEveryBytes) {
      since_guard_ = 0;
      ASSAY_RETURN_IF_ERROR(store_->options_.guard->CheckRoom(size_ - offset_));
    }
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "writing " + store_->PartialPath(sha256_));
      hash_.Update(bytes.subspan(done, static_cast<size_t>(n)));
      done += static_cast<size_t>(n);
      offset_ += static_cast<uint64_t>(n);
    }
    AssayKillPoint("blob:partial_written");
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    if (complete_) return absl::OkStatus();
    if (offset_ != size_) {
      return InvalidError("BLOB_SIZE", "blob " + sha256_ + ": " + std::to_string(offset_) + " of " +
                                           std::to_string(size_) +
                                           " bytes were sent; send the rest");
    }
    const std::string partial = store_->PartialPath(sha256_);
    const std::string path = store_->FinalPath(sha256_);
    if (const std::string got = hash_.FinishHex(); got != sha256_) {
      ::unlink(partial.c_str());
      complete_ = true;
      return InvalidError("DIGEST_MISMATCH",
                          "blob " + sha256_ + ": the bytes sent have digest " + got +
                              "; they were dropped, send the file again from the start");
    }
    if (::fsync(fd_) != 0) return ErrnoError(errno, "syncing " + partial);
    AssayKillPoint("blob:partial_synced");
    // Both fan-out folders and their entries must be durable before the blob counts.
    const std::string folder = DirName(path);
    if (!IsDirectory(folder)) {
      ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder, 0750));
      ASSAY_RETURN_IF_ERROR(SyncDirectory(DirName(folder)));
      ASSAY_RETURN_IF_ERROR(SyncDirectory(store_->options_.dir));
    }
    if (::rename(partial.c_str(), path.c_str()) != 0)
      return ErrnoError(errno, "publishing " + path);
    AssayKillPoint("blob:renamed");
    ASSAY_RETURN_IF_ERROR(SyncDirectory(folder));
    AssayKillPoint("blob:published");
    complete_ = true;
    store_->written_bytes_ += size_;
    store_->stored_bytes_ += size_;
    return absl::OkStatus();
  }

 private:
  FileBlobStore* store_;
  std::string sha256_;
  uint64_t size_;
  uint64_t offset_ = 0;
  uint64_t since_guard_ = 0;
  int fd_ = -1;
  Sha256 hash_;
  bool complete_ = false;
};

absl::StatusOr<std::unique_ptr<FileBlobStore>> FileBlobStore::Open(
    const FileBlobStoreOptions& options) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(JoinPath(options.dir, "partial"), 0750));
  ASSAY_RETURN_IF_ERROR(SyncDirectory(options.dir));
  std::unique_ptr<FileBlobStore> store(new FileBlobStore(options));
  store->DropAbandoned();
  ASSAY_RETURN_IF_ERROR(store->List([&](const BlobInfo& info) {
    store->stored_bytes_ += info.bytes;
    return absl::OkStatus();
  }));
  return store;
}

std::unique_ptr<FileBlobStore> FileBlobStore::Existing(const FileBlobStoreOptions& options) {
  return std::unique_ptr<FileBlobStore>(new FileBlobStore(options));
}

void FileBlobStore::DropAbandoned() {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t now_ms = Clock::Real()->MonotonicMillis();
  if (now_ms < sweep_ms_) return;
  sweep_ms_ = now_ms + kSweepEveryMs;
  // A store without its folder says so at the next upload.
  (void)PartialsLocked(options_.abandoned_ms, /*drop=*/true);
}

absl::StatusOr<FileBlobStore::Partials> FileBlobStore::AbandonedPartials(int64_t idle_ms,
                                                                         bool drop) {
  std::lock_guard<std::mutex> lock(mutex_);
  return PartialsLocked(idle_ms, drop);
}

absl::StatusOr<FileBlobStore::Partials> FileBlobStore::PartialsLocked(int64_t idle_ms,
                                                                      bool drop) const {
  const std::string folder = JoinPath(options_.dir, "partial");
  ASSAY_ASSIGN_OR_RETURN(const auto names, ListDirectory(folder));
  const int64_t newest_s = (Clock::Real()->UnixMillis() - idle_ms) / 1000;
  Partials found;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    struct stat st {};
    if (!IsSha256Hex(name) || writing_.count(name) != 0 || ::lstat(path.c_str(), &st) != 0 ||
        st.st_mtim.tv_sec >= newest_s) {
      continue;
    }
    ++found.files;
    found.bytes += static_cast<uint64_t>(st.st_size);
    if (drop) ::unlink(path.c_str());
  }
  return found;
}

std::string FileBlobStore::FinalPath(const std::string& sha256) const {
  return options_.dir + "/" + sha256.substr(0, 2) + "/" + sha256.substr(2, 2) + "/" + sha256;
}
std::string FileBlobStore::PartialPath(const std::string& sha256) const {
  return options_.dir + "/partial/" + sha256;
}
void FileBlobStore::Release(const std::string& sha256) {
  std::lock_guard<std::mutex> lock(mutex_);
  writing_.erase(sha256);
}

bool FileBlobStore::Has(const std::string& sha256) const {
  return IsSha256Hex(sha256) && FileExists(FinalPath(sha256));
}

bool FileBlobStore::HasIntact(const std::string& sha256) const {
  if (!Has(sha256)) return false;
  const auto size = FileSize(FinalPath(sha256));
  const bool intact = size.ok() && (*size > kBlobRecheckBytes || Verify(sha256).ok());
  if (intact) Touch(FinalPath(sha256));
  return intact;
}

// Whoever has just been told that a blob is here will name it soon: collection must not take it.
void FileBlobStore::Touch(const std::string& path) const {
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

absl::StatusOr<uint64_t> FileBlobStore::Size(const std::string& sha256) const {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  if (!Has(sha256)) return Missing(sha256);
  return FileSize(FinalPath(sha256));
}

absl::StatusOr<std::unique_ptr<BlobWriter>> FileBlobStore::Write(const std::string& sha256,
                                                                 uint64_t size) {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  if (size > options_.max_blob_bytes) {
    return InvalidError("BLOB_TOO_LARGE", "blob " + sha256 + " would have " + std::to_string(size) +
                                              " bytes, more than the limit of " +
                                              std::to_string(options_.max_blob_bytes));
  }
  DropAbandoned();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!writing_.insert(sha256).second) {
      return UnavailableError("BLOB_BUSY",
                              "blob " + sha256 + " is being written by another call; try again");
    }
  }
  auto writer = std::make_unique<Writer>(this, sha256, size);
  if (HasIntact(sha256)) {
    ASSAY_ASSIGN_OR_RETURN(const uint64_t stored, Size(sha256));
    if (stored != size) {
      return InvalidError("BLOB_SIZE", "blob " + sha256 + " has " + std::to_string(stored) +
                                           " bytes, not " + std::to_string(size));
    }
    writer->AlreadyComplete();
    return writer;
  }
  ASSAY_RETURN_IF_ERROR(CheckQuota(size));
  if (options_.guard != nullptr) ASSAY_RETURN_IF_ERROR(options_.guard->CheckRoom(size));
  ASSAY_RETURN_IF_ERROR(writer->Start());
  return writer;
}

absl::StatusOr<BlobWriteStatus> FileBlobStore::WriteStatus(const std::string& sha256) const {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  BlobWriteStatus status;
  if (HasIntact(sha256)) {
    status.complete = true;
    ASSAY_ASSIGN_OR_RETURN(status.committed_size, FileSize(FinalPath(sha256)));
  } else if (FileExists(PartialPath(sha256))) {
    ASSAY_ASSIGN_OR_RETURN(status.committed_size, FileSize(PartialPath(sha256)));
  }
  return status;
}

absl::StatusOr<std::unique_ptr<BlobReader>> FileBlobStore::Read(const std::string& sha256) const {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  ASSAY_ASSIGN_OR_RETURN(auto reader, OpenReader(FinalPath(sha256), sha256));
  return std::unique_ptr<BlobReader>(std::move(reader));
}

absl::StatusOr<std::string> FileBlobStore::LocalPath(const std::string& sha256) const {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  if (!Has(sha256)) return Missing(sha256);
  return FinalPath(sha256);
}

absl::Status FileBlobStore::Verify(const std::string& sha256) const {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  ASSAY_ASSIGN_OR_RETURN(const auto reader, OpenReader(FinalPath(sha256), sha256));
  Sha256 hash;
  ASSAY_RETURN_IF_ERROR(HashAll(*reader, &hash));
  if (hash.FinishHex() != sha256) {
    return DataLossError("BLOB_CORRUPT",
                         FinalPath(sha256) +
                             ": the stored bytes have another digest; restore the file "
                             "from a backup");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FileBlobStore::DropDamaged(const std::string& sha256) {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  if (!Has(sha256)) return true;
  const absl::Status status = Verify(sha256);
  if (status.ok()) return false;
  if (ReasonOf(status) != "BLOB_CORRUPT") return status;
  ASSAY_RETURN_IF_ERROR(Remove(sha256));
  return true;
}

absl::Status FileBlobStore::CheckQuota(uint64_t bytes) const {
  const uint64_t limit = options_.max_stored_bytes, stored = stored_bytes_;
  if (limit == 0 || (stored <= limit && bytes <= limit - stored)) return absl::OkStatus();
  return ExhaustedError("QUOTA_EXCEEDED",
                        std::to_string(stored) + " bytes are stored, " + std::to_string(bytes) +
                            " more are wanted and " + std::to_string(limit) +
                            " are allowed; drop captures (assay captures prune --apply), run "
                            "assayd gc, or raise --max-store-bytes");
}

absl::Status FileBlobStore::Remove(const std::string& sha256) {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  const std::string path = FinalPath(sha256);
  const auto size = FileSize(path);
  if (!size.ok()) return absl::OkStatus();
  if (::unlink(path.c_str()) != 0)
    return errno == ENOENT ? absl::OkStatus() : ErrnoError(errno, "removing " + path);
  stored_bytes_ -= *size;
  return absl::OkStatus();
}

absl::StatusOr<bool> FileBlobStore::RemoveIfOld(const std::string& sha256,
                                                int64_t touched_before_ms) {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  struct stat st {};
  if (::lstat(FinalPath(sha256).c_str(), &st) != 0) return false;
  if (int64_t{st.st_mtim.tv_sec} * 1000 >= touched_before_ms) return false;
  ASSAY_RETURN_IF_ERROR(Remove(sha256));
  return true;
}

absl::Status FileBlobStore::List(const std::function<absl::Status(const BlobInfo&)>& sink) const {
  ASSAY_ASSIGN_OR_RETURN(const auto first, ListDirectory(options_.dir));
  for (const std::string& a : first) {
    if (a.size() != 2) continue;
    ASSAY_ASSIGN_OR_RETURN(const auto second, ListDirectory(JoinPath(options_.dir, a)));
    for (const std::string& b : second) {
      const std::string folder = options_.dir + "/" + a + "/" + b;
      ASSAY_ASSIGN_OR_RETURN(const auto names, ListDirectory(folder));
      for (const std::string& name : names) {
        struct stat st {};
        // One that has gone since, or lies where nobody looks for it, is none.
        if (!IsSha256Hex(name) || FinalPath(name) != JoinPath(folder, name) ||
            ::lstat(JoinPath(folder, name).c_str(), &st) != 0) {
          continue;
        }
        ASSAY_RETURN_IF_ERROR(
            sink({name, static_cast<uint64_t>(st.st_size), int64_t{st.st_mtim.tv_sec} * 1000}));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status FileBlobStore::Quarantine(const std::string& sha256) {
  ASSAY_RETURN_IF_ERROR(CheckName(sha256));
  const std::string folder = JoinPath(options_.dir, "quarantine");
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder, 0750));
  const std::string path = FinalPath(sha256), aside = JoinPath(folder, sha256);
  const auto size = FileSize(path);
  if (::rename(path.c_str(), aside.c_str()) != 0) return ErrnoError(errno, "setting aside " + path);
  stored_bytes_ -= size.value_or(0);
  ASSAY_RETURN_IF_ERROR(SyncDirectory(folder));
  return SyncDirectory(DirName(path));
}

}  // namespace assay
