#include "storage/db/anchor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/row.h"

namespace assay {
namespace {

constexpr size_t kSlotBytes = 256;
constexpr uint64_t kAnchorBytesMax = 1 << 16;
constexpr const char* kTagOfAny = "assay-anchor/";
constexpr const char* kTag = "assay-anchor/1";

std::string SlotText(const AnchorValue& value) {
  std::string text = kTag;
  text.append(" ").append(std::to_string(value.seq)).append(" ").append(value.hash_hex);
  const std::string crc = std::to_string(Crc32c(text));
  text.append(" ").append(crc).append("\n");
  text.resize(kSlotBytes, ' ');
  return text;
}

// "assay-anchor/N ..." of a slot whose checksum is right. Every version keeps tag and checksum, so
// that a flipped bit is never taken for a newer version.
std::optional<std::string> SoundSlot(const std::string& slot) {
  const std::string line = slot.substr(0, slot.find('\n'));
  const size_t last = line.rfind(' ');
  if (last == std::string::npos ||
      line.substr(last + 1) != std::to_string(Crc32c(line.substr(0, last)))) {
    return std::nullopt;
  }
  return line.substr(0, last);
}

std::optional<AnchorValue> ParseSlot(const std::string& text) {
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  if (text.substr(0, first) != kTag || second == std::string::npos) return std::nullopt;
  AnchorValue value;
  value.seq = std::strtoull(text.c_str() + first + 1, nullptr, 10);
  value.hash_hex = text.substr(second + 1);
  return value;
}

bool IsNewer(const std::string& text) {
  return text.rfind(kTagOfAny, 0) == 0 && text.substr(0, text.find(' ')) != kTag;
}

class DiskAnchorFile : public AnchorFile {
 public:
  DiskAnchorFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~DiskAnchorFile() override { ::close(fd_); }

  absl::StatusOr<std::string> Read() override {
    std::string bytes(2 * kSlotBytes, '\0');
    const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), 0);
    if (n < 0) return ErrnoError(errno, "reading " + path_);
    bytes.resize(static_cast<size_t>(n));
    if (n == 0) ASSAY_RETURN_IF_ERROR(SyncDirectory(DirName(path_)));
    return bytes;
  }
  absl::Status Write(uint64_t offset, std::string_view bytes) override {
    if (::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes.size())) {
      return ErrnoError(errno == 0 ? EIO : errno, "writing " + path_);
    }
    if (::fdatasync(fd_) != 0) return ErrnoError(errno, "syncing " + path_);
    return absl::OkStatus();
  }

 private:
  std::string path_;
  int fd_;
};

// The newest of the slots that can be read.
absl::StatusOr<std::optional<AnchorValue>> Newest(std::string bytes, const std::string& path) {
  std::optional<AnchorValue> newest;
  if (bytes.empty()) return newest;
  bytes.resize(2 * kSlotBytes, '\0');
  for (size_t at = 0; at < bytes.size(); at += kSlotBytes) {
    const std::optional<std::string> text = SoundSlot(bytes.substr(at, kSlotBytes));
    if (!text) continue;
    const auto value = ParseSlot(*text);
    if (value && (!newest || value->seq > newest->seq)) newest = value;
    if (IsNewer(*text)) {
      return PreconditionError("STORE_VERSION",
                               path + ": the anchor was written by a newer build; use that one");
    }
  }
  if (!newest) {
    return DataLossError("STORE_DAMAGED",
                         path +
                             ": neither slot of the anchor can be read; restore the data folder "
                             "from a backup");
  }
  return newest;
}

}  // namespace

absl::StatusOr<std::optional<AnchorValue>> Anchor::Read(const std::string& path) {
  if (!FileExists(path)) return std::nullopt;
  ASSAY_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kAnchorBytesMax));
  return Newest(std::move(bytes), path);
}

absl::StatusOr<std::unique_ptr<Anchor>> Anchor::Open(const std::string& path) {
  ASSAY_RETURN_IF_ERROR(Read(path).status());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return ErrnoError(errno, "opening " + path);
  return Over(std::make_unique<DiskAnchorFile>(path, fd), path);
}

absl::StatusOr<std::unique_ptr<Anchor>> Anchor::Over(std::unique_ptr<AnchorFile> file,
                                                     const std::string& path) {
  std::unique_ptr<Anchor> anchor(new Anchor(std::move(file)));
  ASSAY_ASSIGN_OR_RETURN(std::string bytes, anchor->file_->Read());
  ASSAY_ASSIGN_OR_RETURN(anchor->value_, Newest(std::move(bytes), path));
  return anchor;
}

absl::Status Anchor::Write(const AnchorValue& value) {
  ASSAY_RETURN_IF_ERROR(file_->Write((value.seq % 2) * kSlotBytes, SlotText(value)));
  value_ = value;
  return absl::OkStatus();
}

}  // namespace assay
