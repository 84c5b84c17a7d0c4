// Files: mapped reading, bounded reading, and writes that are durable when they return.

#ifndef ASSAY_STORAGE_BASE_FILES_H_
#define ASSAY_STORAGE_BASE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// A file mapped read-only for the object's life. A file that shrinks while mapped raises SIGBUS on
// access, as with any mapping; callers verify digests of files that others could change.
class MappedFile {
 public:
  // Errors name the path; an empty file maps to an empty span.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const uint8_t* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const uint8_t* data_;
  size_t size_;
};

// The whole file; FILE_TOO_LARGE beyond `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

// Writes `path` so that after success it holds exactly `bytes` even across a power cut: temporary
// file in the same folder, write, fsync, rename, fsync of the folder. On error the old file, if
// any, is untouched. Kill points "file:written", "file:synced", "file:renamed".
absl::Status WriteFileAtomic(const std::string& path, std::string_view bytes, unsigned mode = 0644);

// As WriteFileAtomic without the two fsyncs: for outputs that can be made again.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// mkdir -p. OK when the folder exists already.
absl::Status EnsureDirectory(const std::string& path, unsigned mode = 0755);
absl::Status SyncDirectory(const std::string& path);

// rm -rf of `path`; OK when it does not exist.
absl::Status RemoveTree(const std::string& path);

bool FileExists(const std::string& path);
bool IsDirectory(const std::string& path);
absl::StatusOr<uint64_t> FileSize(const std::string& path);
// Names (not paths) in a folder, sorted bytewise, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// "a/b" + "c" -> "a/b/c".
std::string JoinPath(std::string_view folder, std::string_view name);
std::string BaseName(std::string_view path);  // "a/b/c" -> "c", "a/b/" -> "b"
std::string DirName(std::string_view path);   // "a/b/c" -> "a/b", "c" -> "."

// True for a relative path without empty, "." or ".." parts, NUL or backslash: the only paths
// accepted from outside.
bool IsSafeRelativePath(std::string_view path);

// Bytes free for an unprivileged process on the file system of `path`.
absl::StatusOr<uint64_t> FreeBytes(const std::string& path);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_FILES_H_
