// One lease from its grant to its result: inputs, ranks, outputs.

#ifndef ASSAY_WORKER_AGENT_LEASE_WORK_H_
#define ASSAY_WORKER_AGENT_LEASE_WORK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/worker.pb.h"
#include "storage/base/clock.h"
#include "storage/base/json.h"
#include "worker/agent/lease_deadline.h"
#include "worker/agent/unit_files.h"
#include "worker/agent/unit_runner.h"

namespace assay {

// A lease that the agent holds. Shared by the thread that talks to the coordinator and the one that
// works.
struct ActiveLease {
  ActiveLease(v1::Lease granted, Clock* clock, int64_t sent_ms)
      : lease(std::move(granted)), deadline(clock, sent_ms, lease.ttl_ms()) {}

  const v1::Lease lease;
  LeaseDeadline deadline;
  std::atomic<int64_t> contexts_done{0}, contexts_total{0};
  std::atomic<bool> cancelled{false};  // by the coordinator
  std::atomic<bool> released{false};   // by this worker, which is leaving

  bool GoOn() const { return !cancelled && !released && deadline.Held(); }
  Json LogFields() const;  // {"lease","unit","run","attempt"}
};

// Executes leases one after the other.
class LeaseWorker {
 public:
  // All pointers outlive the object. Outputs are written below `work_dir` and removed after they
  // were pushed; the cache keeps a copy by moving them.
  LeaseWorker(UnitInputs inputs, UnitRunner* runner, Clock* clock, std::string work_dir)
      : inputs_(inputs), runner_(runner), clock_(clock), work_dir_(std::move(work_dir)) {}

  // Works on `lease` and returns what to report. Checks before every push, and after the last one,
  // that the lease is still held; a caller that finds it lost afterwards reports nothing.
  v1::UnitResult Execute(ActiveLease* lease);

  // Stops the unit in progress when its lease should not go on. Any thread.
  void CancelIfDone(const ActiveLease& lease);

 private:
  absl::Status Work(ActiveLease* lease, const std::string& out_dir, v1::UnitResult* result);
  absl::StatusOr<UnitOutcome> RunUnit(ActiveLease* lease, const Json& unit,
                                      const std::string& out_dir);
  absl::Status Push(ActiveLease* lease, const std::vector<OutputFile>& files,
                    v1::UnitResult* result);

  const UnitInputs inputs_;
  UnitRunner* const runner_;
  Clock* const clock_;
  const std::string work_dir_;
  std::mutex mutex_;
  const ActiveLease* running_ = nullptr;  // the lease whose unit is inside runner_->Run
};

// Whether another attempt, perhaps elsewhere, can succeed: false for a refusal of content.
bool IsRetryable(const absl::Status& status);

// `status` as a result's error.
void SetError(const absl::Status& status, v1::UnitResult* result);

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_LEASE_WORK_H_
