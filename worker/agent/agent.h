// The agent's conversation with the coordinator.

#ifndef ASSAY_WORKER_AGENT_AGENT_H_
#define ASSAY_WORKER_AGENT_AGENT_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/worker.pb.h"
#include "storage/base/clock.h"
#include "worker/agent/lease_work.h"
#include "worker/agent/unit_runner.h"

namespace assay {

inline constexpr int kWorkerProtocolVersion = 1;

// WorkerService.Synchronize, as an interface for tests.
class CoordinatorLink {
 public:
  virtual ~CoordinatorLink() = default;
  // Makes the next Synchronize interruptible from now on: an Interrupt after Arm ends it, even when
  // it comes before the call.
  virtual void Arm() = 0;
  virtual absl::StatusOr<v1::SynchronizeResponse> Synchronize(
      const v1::SynchronizeRequest& request) = 0;
  virtual void Interrupt() = 0;  // any thread
};

struct AgentOptions {
  std::string name;         // worker id
  std::string incarnation;  // random per process
  std::string host_json;
  int tp = 1;
  int64_t idle_wait_ms = 20'000;
  int64_t busy_wait_ms = 1'000;  // also the pace of progress
  int64_t idle_pause_ms = 20;    // between two calls that brought nothing
  int64_t retry_first_ms = 200;  // after a failed call, then doubled
  int64_t retry_max_ms = 5'000;
  int64_t drain_grace_ms = 3'000;  // a unit may still finish after Stop
  int64_t farewell_ms = 2'000;     // for the last call, which gives leases back
  int start_attempts = 3;          // of the ranks, before the agent gives up
  int64_t start_retry_ms = 1'000;
};

// Runs one agent. All pointers outlive it.
class Agent {
 public:
  Agent(AgentOptions options, Clock* clock, CoordinatorLink* link, UnitRunner* runner,
        LeaseWorker* worker);

  // Blocks until Stop, until the coordinator asks to drain and nothing is left to do (both OK), or
  // until going on makes no sense: WORKER_REPLACED, PROTOCOL_VERSION, WORKER_INVALID, or the error
  // with which the ranks do not start. No rank process is left afterwards.
  absl::Status Run();

  // Asks Run to return: a unit in progress gets drain_grace_ms to finish, then is given back. Any
  // thread, not from signal handlers.
  void Stop();
  bool stopping() const;
  // True when a start of the ranks or a unit in progress should end now. Any thread.
  bool giving_up() const;

 private:
  // The thread that runs ranks and units.
  void WorkLoop();
  absl::Status StartRanks();

  v1::SynchronizeRequest BuildRequest();  // holds mutex_
  void Handle(const v1::SynchronizeRequest& request, const v1::SynchronizeResponse& response,
              int64_t sent_ms);
  void HandleAcks(const v1::SynchronizeResponse& response);  // holds mutex_
  void HandleLease(const v1::SynchronizeRequest& request, const v1::SynchronizeResponse& response,
                   int64_t sent_ms);                                      // holds mutex_
  void Accept(const v1::SynchronizeResponse& response, int64_t sent_ms);  // holds mutex_
  absl::Status SynchronizeLoop();
  // Sleeps, but not past something to say.
  void Pause(int64_t ms);
  bool Finished();          // holds mutex_: nothing left to do for a stopping agent
  void TellNews();          // holds mutex_: ends the call in flight, which knows nothing of them
  void DropStaleResults();  // holds mutex_
  void CheckDeadlines();

  const AgentOptions options_;
  Clock* const clock_;
  CoordinatorLink* const link_;
  UnitRunner* const runner_;
  LeaseWorker* const worker_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Stop was called
  bool draining_ = false;  // the coordinator asked to leave
  bool leaving_ = false;   // Run is returning
  bool news_ = false;      // something the coordinator should hear at once
  int64_t stop_ms_ = 0;    // when Stop was called
  bool ready_ = false;     // the ranks run
  absl::Status start_error_;
  std::string replay_identity_, capture_identity_;
  uint64_t epoch_ = 0;
  std::shared_ptr<ActiveLease> active_;  // waiting for or inside the work thread
  bool taken_ = false;                   // the work thread has it
  struct Pending {
    std::shared_ptr<ActiveLease> lease;
    v1::UnitResult result;
  };
  std::vector<Pending> results_;  // not acknowledged yet
};

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_AGENT_H_
