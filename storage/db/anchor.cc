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
constexpr const char* kTag = "assay-anchor/1";

std::string SlotText(const AnchorValue& value) {
  std::string text = kTag;
  text.append(" ").append(std::to_string(value.seq)).append(" ").append(value.hash_hex);
  const std::string crc = std::to_string(Crc32c(text));
  text.append(" ").append(crc).append("\n");
  text.resize(kSlotBytes, ' ');
  return text;
}

std::optional<AnchorValue> ParseSlot(const std::string& slot) {
  const std::string line = slot.substr(0, slot.find('\n'));
  const size_t last = line.rfind(' ');
  if (last == std::string::npos ||
      line.substr(last + 1) != std::to_string(Crc32c(line.substr(0, last)))) {
    return std::nullopt;
  }
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first + 1);
  if (line.substr(0, first) != kTag || second >= last) return std::nullopt;
  AnchorValue value;
  value.seq = std::strtoull(line.c_str() + first + 1, nullptr, 10);
  value.hash_hex = line.substr(second + 1, last - second - 1);
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Anchor>> Anchor::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return ErrnoError(errno, "opening " + path);
  std::unique_ptr<Anchor> anchor(new Anchor(path, fd));
  std::string bytes(2 * kSlotBytes, '\0');
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), 0);
  if (n < 0) return ErrnoError(errno, "reading " + path);
  if (n == 0) {
    ASSAY_RETURN_IF_ERROR(SyncDirectory(DirName(path)));
    return anchor;
  }
  for (size_t slot = 0; slot < 2; ++slot) {
    const auto value = ParseSlot(bytes.substr(slot * kSlotBytes, kSlotBytes));
    if (value && (!anchor->value_ || value->seq > anchor->value_->seq)) anchor->value_ = value;
  }
  if (!anchor->value_) {
    return DataLossError("STORE_DAMAGED",
                         path +
                             ": neither slot of the anchor can be read; restore the data folder "
                             "from a backup");
  }
  return anchor;
}

Anchor::~Anchor() { ::close(fd_); }

absl::Status Anchor::Write(const AnchorValue& value) {
  const std::string slot = SlotText(value);
  const off_t at = static_cast<off_t>((value.seq % 2) * kSlotBytes);
  if (::pwrite(fd_, slot.data(), slot.size(), at) != static_cast<ssize_t>(slot.size())) {
    return ErrnoError(errno == 0 ? EIO : errno, "writing " + path_);
  }
  if (::fdatasync(fd_) != 0) return ErrnoError(errno, "syncing " + path_);
  value_ = value;
  return absl::OkStatus();
}

}  // namespace assay
