#include "worker/agent/agent.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "client/lib/channel.h"
#include "fmt/format.h"
#include "storage/base/build_info.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/agent/log.h"

namespace assay {
namespace {

std::string IdentityText(const Json& identity, const char* part) {
  if (!identity.contains(part) || !identity[part].is_object()) return "";
  absl::StatusOr<std::string> text = CanonicalJson(identity[part]);
  return text.ok() ? *text : "";
}

bool IsFatal(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "WORKER_REPLACED" || reason == "PROTOCOL_VERSION" ||
         reason == "WORKER_INVALID" || reason == "SERVER_TOO_OLD";
}

}  // namespace

Agent::Agent(AgentOptions options, Clock* clock, CoordinatorLink* link, UnitRunner* runner,
             LeaseWorker* worker)
    : options_(std::move(options)), clock_(clock), link_(link), runner_(runner), worker_(worker) {}

void Agent::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    stop_ms_ = clock_->MonotonicMillis();
    TellNews();
  }
  changed_.notify_all();
}

void Agent::TellNews() {
  news_ = true;
  link_->Interrupt();
}

bool Agent::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool Agent::giving_up() const {
  const std::lock_guard lock(mutex_);
  return leaving_ || (stopping_ &&
                      (!ready_ || clock_->MonotonicMillis() - stop_ms_ >= options_.drain_grace_ms));
}

absl::Status Agent::StartRanks() {
  for (int attempt = 1;; ++attempt) {
    const absl::Status status = runner_->Start();
    if (status.ok()) break;
    if (stopping()) return absl::OkStatus();
    LogLine("error", "ranks did not start", LogFields(status));
    if (attempt >= options_.start_attempts || !IsRetryable(status)) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.start_retry_ms));
  }
  const Json identity = runner_->Identity();
  const std::lock_guard lock(mutex_);
  replay_identity_ = IdentityText(identity, "replay");
  capture_identity_ = IdentityText(identity, "capture");
  ready_ = true;
  return absl::OkStatus();
}

void Agent::WorkLoop() {
  const absl::Status started = StartRanks();
  {
    const std::lock_guard lock(mutex_);
    start_error_ = started;
    TellNews();
  }
  changed_.notify_all();
  if (!started.ok()) return;
  LogLine("info", "ranks ready");
  for (;;) {
    std::shared_ptr<ActiveLease> lease;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return leaving_ || (active_ != nullptr && !taken_); });
      if (leaving_) return;
      lease = active_;
      taken_ = true;
    }
    v1::UnitResult result = worker_->Execute(lease.get());
    {
      const std::lock_guard lock(mutex_);
      active_ = nullptr;
      taken_ = false;
      // A cancelled lease is still answered; a lost one is nobody's business any more.
      if (lease->deadline.Held()) results_.push_back({lease, std::move(result)});
      TellNews();
    }
    changed_.notify_all();
  }
}

v1::SynchronizeRequest Agent::BuildRequest() {
  v1::SynchronizeRequest request;
  request.set_protocol_version(kWorkerProtocolVersion);
  request.set_build_id(BuildId());
  request.set_worker_id(options_.name);
  request.set_incarnation(options_.incarnation);
  request.set_coordinator_epoch(epoch_);
  request.set_tp(options_.tp);
  request.set_replay_identity_json(replay_identity_);
  request.set_capture_identity_json(capture_identity_);
  request.set_host_json(options_.host_json);
  const bool leaving = stopping_ || draining_;
  request.set_draining(leaving);
  if (active_ != nullptr) {
    v1::LeaseStatus* status = request.add_leases();
    status->set_lease_id(active_->lease.lease_id());
    status->set_contexts_done(active_->contexts_done);
    status->set_contexts_total(active_->contexts_total);
  }
  for (const Pending& pending : results_) *request.add_results() = pending.result;
  const bool idle = active_ == nullptr && results_.empty();
  request.set_free_slots(ready_ && idle && !leaving ? 1 : 0);
  request.set_wait_ms(leaving ? 0 : idle ? options_.idle_wait_ms : options_.busy_wait_ms);
  return request;
}

void Agent::HandleAcks(const v1::SynchronizeResponse& response) {
  for (const v1::ResultAck& ack : response.acks()) {
    const auto pending = std::find_if(
        results_.begin(), results_.end(),
        [&](const Pending& candidate) { return candidate.result.lease_id() == ack.lease_id(); });
    if (pending == results_.end()) continue;
    if (ack.outcome() != v1::ResultAck::ACCEPTED) {
      Json fields = pending->lease->LogFields();
      fields["outcome"] = v1::ResultAck::Outcome_Name(ack.outcome());
      fields["message"] = ack.message();
      LogLine("warn", "result was not accepted", fields);
    }
    results_.erase(pending);
  }
}

void Agent::HandleLease(const v1::SynchronizeRequest& request,
                        const v1::SynchronizeResponse& response, int64_t sent_ms) {
  const auto contains = [](const auto& ids, const std::string& id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  const auto renewed = [&](const std::string& id) { return contains(response.renewed(), id); };
  for (Pending& pending : results_) {
    if (renewed(pending.result.lease_id())) pending.lease->deadline.Renew(sent_ms);
  }
  if (active_ == nullptr || request.leases_size() == 0) return;
  const std::string& id = active_->lease.lease_id();
  if (request.leases(0).lease_id() != id) return;  // it was granted after this call had been sent
  if (contains(response.cancel(), id)) {
    if (!active_->cancelled.exchange(true)) {
      LogLine("info", "unit cancelled by the coordinator", active_->LogFields());
    }
  }
  if (renewed(id)) {
    active_->deadline.Renew(sent_ms);
  } else if (!active_->cancelled) {
    LogLine("warn", "lease lost", active_->LogFields());
    active_->deadline.Lose();
  }
}

void Agent::Accept(const v1::SynchronizeResponse& response, int64_t sent_ms) {
  for (const v1::Lease& lease : response.start()) {
    auto granted = std::make_shared<ActiveLease>(lease, clock_, sent_ms);
    if (active_ == nullptr && !stopping_) {
      active_ = std::move(granted);
      taken_ = false;
      continue;
    }
    granted->released = true;
    v1::UnitResult result;
    result.set_lease_id(lease.lease_id());
    SetError(Error(absl::StatusCode::kCancelled, "WORKER_LEAVING",
                   "the worker has no free slot for the unit and gave it back"),
             &result);
    results_.push_back({std::move(granted), std::move(result)});
    news_ = true;
  }
}

void Agent::Handle(const v1::SynchronizeRequest& request, const v1::SynchronizeResponse& response,
                   int64_t sent_ms) {
  {
    const std::lock_guard lock(mutex_);
    epoch_ = response.coordinator_epoch();
    if (response.drain()) draining_ = true;
    HandleAcks(response);
    HandleLease(request, response, sent_ms);
    Accept(response, sent_ms);
  }
  changed_.notify_all();
}

void Agent::DropStaleResults() {
  const auto stale = [](const Pending& pending) { return !pending.lease->deadline.Held(); };
  for (const Pending& pending : results_) {
    if (stale(pending)) {
      LogLine("warn", "result dropped, its lease is over", pending.lease->LogFields());
    }
  }
  results_.erase(std::remove_if(results_.begin(), results_.end(), stale), results_.end());
}

void Agent::CheckDeadlines() {
  std::shared_ptr<ActiveLease> lease;
  {
    const std::lock_guard lock(mutex_);
    DropStaleResults();
    if (stopping_ && active_ != nullptr &&
        clock_->MonotonicMillis() - stop_ms_ >= options_.drain_grace_ms) {
      active_->released = true;
    }
    lease = active_;
  }
  if (lease != nullptr) worker_->CancelIfDone(*lease);
}

bool Agent::Finished() {
  if (!stopping_ && !draining_) return false;
  if (active_ != nullptr) return false;
  if (results_.empty()) return true;
  // The farewell may fail: the lease then ends by itself.
  return stopping_ &&
         clock_->MonotonicMillis() - stop_ms_ >= options_.drain_grace_ms + options_.farewell_ms;
}

void Agent::Pause(int64_t ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(ms), [&] { return news_; });
}

absl::Status Agent::SynchronizeLoop() {
  Backoff backoff(options_.retry_first_ms, options_.retry_max_ms);
  bool connected = false, complained = false;
  for (;;) {
    CheckDeadlines();
    v1::SynchronizeRequest request;
    {
      const std::lock_guard lock(mutex_);
      if (!start_error_.ok()) return start_error_;
      if (Finished()) return absl::OkStatus();
      news_ = false;
      link_->Arm();
      request = BuildRequest();
    }
    const int64_t sent_ms = clock_->MonotonicMillis();
    if (request.results_size() > 0) AssayKillPoint("agent:reporting");
    absl::StatusOr<v1::SynchronizeResponse> response = link_->Synchronize(request);
    if (response.ok()) {
      if (request.results_size() > 0) AssayKillPoint("agent:reported");
      const bool idle = request.free_slots() > 0 && response->start_size() == 0;
      if (!connected) LogLine("info", "connected to the coordinator");
      connected = true;
      complained = false;
      backoff.Reset();
      Handle(request, *response, sent_ms);
      // An idle worker waits inside the call, so that work that comes up reaches it at once.
      // The pause keeps a coordinator that answers at once, because it is stopping, from being
      // asked without end.
      Pause(idle ? options_.idle_pause_ms
                 : std::clamp<int64_t>(response->next_sync_ms(), 0, options_.busy_wait_ms));
      continue;
    }
    if (IsFatal(response.status())) return response.status();
    if (absl::IsCancelled(response.status())) continue;  // interrupted by news
    if (!complained) {
      LogLine("warn", "the coordinator does not answer; trying again",
              LogFields(response.status()));
    }
    complained = true;
    connected = false;
    Pause(backoff.NextMs());
  }
}

absl::Status Agent::Run() {
  std::thread work([this] { WorkLoop(); });
  const absl::Status status = SynchronizeLoop();
  std::shared_ptr<ActiveLease> lease;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    leaving_ = true;
    if (active_ != nullptr) active_->released = true;
    lease = active_;
  }
  changed_.notify_all();
  if (lease != nullptr) worker_->CancelIfDone(*lease);
  work.join();
  runner_->Shutdown();
  return status;
}

}  // namespace assay
