// Time as a dependency, so that tests can stand still.

#ifndef ASSAY_STORAGE_BASE_CLOCK_H_
#define ASSAY_STORAGE_BASE_CLOCK_H_

#include <cstdint>
#include <string>

namespace assay {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since 1970-01-01 UTC; for people and records, may jump.
  virtual int64_t UnixMillis() = 0;
  // Milliseconds that only grow, suspend included (CLOCK_BOOTTIME); for leases and timeouts.
  virtual int64_t MonotonicMillis() = 0;

  // The process-wide real clock; never destroyed.
  static Clock* Real();
};

// "2026-11-30T12:00:00Z".
std::string FormatUtc(int64_t unix_millis);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_CLOCK_H_
