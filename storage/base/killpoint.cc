#include "storage/base/killpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace assay {
namespace {

struct Armed {
  std::string name;
  long countdown = 0;
  Armed() {
    const char* spec = getenv("ASSAY_KILLPOINT");
    if (spec == nullptr || *spec == '\0') return;
    const char* at = strrchr(spec, '@');
    name = at == nullptr ? std::string(spec) : std::string(spec, at);
    countdown = at == nullptr ? 1 : strtol(at + 1, nullptr, 10);
  }
};

}  // namespace

void AssayKillPoint(const char* name) {
  static const Armed armed;
  if (armed.name.empty() || armed.name != name) return;
  static std::atomic<long> passed{0};
  if (++passed != armed.countdown) return;
  if (const char* mark = getenv("ASSAY_KILLPOINT_MARK"); mark != nullptr) {
    const int fd = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    close(fd);
  }
  const char* signal_name = getenv("ASSAY_KILLPOINT_SIGNAL");
  const bool stop = signal_name != nullptr && strcmp(signal_name, "STOP") == 0;
  kill(getpid(), stop ? SIGSTOP : SIGKILL);
}

}  // namespace assay
