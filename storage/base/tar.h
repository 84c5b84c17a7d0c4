// Plain tar files (POSIX ustar) of regular files: deterministic when written, strict when read.
//
// Written: one header per file with mode 0644, owner 0 and time 0, so the bytes depend on names,
// order and contents alone. Read: regular files under safe relative names and nothing else. Links,
// folders, devices, extended headers, names that occur twice or differ only in case, and bytes that
// belong to no file are refused (TAR_INVALID, naming the entry).

#ifndef ASSAY_STORAGE_BASE_TAR_H_
#define ASSAY_STORAGE_BASE_TAR_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

inline constexpr uint64_t kTarBlock = 512;
inline constexpr uint64_t kTarFileBytesMax = (uint64_t{1} << 33) - 1;  // 11 octal digits
inline constexpr size_t kTarFilesMax = 1 << 17;

// The header of a file. TAR_INVALID for a name that is unsafe or does not fit, or a larger size.
absl::StatusOr<std::string> TarHeader(std::string_view name, uint64_t size);
std::string TarPadding(uint64_t size);  // zeros up to the next block
std::string TarEnd();                   // two blocks of zeros

struct TarEntry {
  std::string name;
  std::span<const uint8_t> bytes;  // into the archive
};

// Reads an archive in memory (a mapping), which outlives the reader; `path` names it in errors.
class TarReader {
 public:
  TarReader(std::span<const uint8_t> bytes, std::string path)
      : bytes_(bytes), path_(std::move(path)) {}
  // The next file; nothing at the end of the archive.
  absl::StatusOr<std::optional<TarEntry>> Next();

 private:
  absl::Status Bad(const std::string& why) const;
  absl::Status CheckEnd() const;

  std::span<const uint8_t> bytes_;
  std::string path_;
  uint64_t at_ = 0;
  std::set<std::string> names_;  // in lower case
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_TAR_H_
