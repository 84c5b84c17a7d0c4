// How long the worker may go on with a lease, on its own clock.

#ifndef ASSAY_WORKER_AGENT_LEASE_DEADLINE_H_
#define ASSAY_WORKER_AGENT_LEASE_DEADLINE_H_

#include <atomic>
#include <cstdint>

#include "storage/base/clock.h"

namespace assay {

// The coordinator counts a lease from when it handled the call; the worker from when it SENT that
// call, which is earlier, and stops kLeaseMargin before the end. So the worker has always stopped
// before the coordinator gives the work to somebody else, whatever the network did to the answer,
// and a worker that slept (SIGSTOP, suspend) finds its lease over. Thread-safe.
class LeaseDeadline {
 public:
  // The share of the lease time given up as margin: 1/kMarginDivisor.
  static constexpr int64_t kMarginDivisor = 6;

  // `sent_ms`: clock->MonotonicMillis() just before the call that granted the lease was sent.
  // `clock` outlives the object.
  LeaseDeadline(Clock* clock, int64_t sent_ms, int64_t ttl_ms) : clock_(clock), ttl_ms_(ttl_ms) {
    Renew(sent_ms);
  }

  // A call sent at `sent_ms` was answered with a renewal. Never shortens.
  void Renew(int64_t sent_ms) {
    const int64_t deadline = sent_ms + ttl_ms_ - ttl_ms_ / kMarginDivisor;
    int64_t current = deadline_ms_.load();
    while (current < deadline && !deadline_ms_.compare_exchange_weak(current, deadline)) {
    }
  }

  // The coordinator said that the lease is gone. Final.
  void Lose() { lost_ = true; }

  // True while results may be made and published.
  bool Held() const { return !lost_ && clock_->MonotonicMillis() < deadline_ms_; }

 private:
  Clock* const clock_;
  const int64_t ttl_ms_;
  std::atomic<int64_t> deadline_ms_{INT64_MIN};
  std::atomic<bool> lost_{false};
};

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_LEASE_DEADLINE_H_
