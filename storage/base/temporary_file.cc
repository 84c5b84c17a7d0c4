#include "storage/base/temporary_file.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kMark = ".tmp.";

// What stands before the mark, and the process that made the file.
struct Parts {
  std::string_view file;
  pid_t process = 0;
};

std::optional<Parts> PartsOf(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  Parts out;
  out.file = name.substr(0, mark);
  const std::string_view numbers = name.substr(mark + kMark.size());
  const size_t dot = numbers.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const char* const end = numbers.data() + numbers.size();
  uint64_t serial = 0;
  const auto first = std::from_chars(numbers.data(), numbers.data() + dot, out.process);
  const auto second = std::from_chars(numbers.data() + dot + 1, end, serial);
  if (first.ec != std::errc() || first.ptr != numbers.data() + dot || out.process <= 0 ||
      second.ec != std::errc() || second.ptr != end)
    return std::nullopt;
  return out;
}

}  // namespace

std::string TemporaryName(std::string_view path) {
  static std::atomic<uint64_t> serial{0};
  return std::string(path) + std::string(kMark) + std::to_string(getpid()) + "." +
         std::to_string(serial++);
}

bool IsTemporaryOf(std::string_view name, std::string_view file) {
  const auto parts = PartsOf(name);
  return parts && parts->file == file;
}

absl::Status RemoveTemporaries(const std::string& folder) {
  if (!IsDirectory(folder)) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const auto names, ListDirectory(folder));
  for (const std::string& name : names) {
    const auto parts = PartsOf(name);
    if (!parts || kill(parts->process, 0) == 0 || errno != ESRCH) continue;
    const std::string path = JoinPath(folder, name);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "removing " + path);
  }
  return absl::OkStatus();
}

}  // namespace assay
