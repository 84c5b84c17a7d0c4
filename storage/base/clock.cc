#include "storage/base/clock.h"

#include <ctime>

namespace assay {
namespace {

int64_t Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

class RealClock final : public Clock {
 public:
  int64_t UnixMillis() override { return Read(CLOCK_REALTIME); }
  int64_t MonotonicMillis() override { return Read(CLOCK_BOOTTIME); }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

std::string FormatUtc(int64_t unix_millis) {
  const time_t seconds = unix_millis / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char buffer[32];
  const size_t n = strftime(buffer, sizeof(buffer), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(buffer, n);
}

}  // namespace assay
