#include "worker/agent/lease_work.h"

#include <algorithm>

#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/utf8.h"
#include "worker/agent/log.h"
#include "worker/rank/protocol.h"

namespace assay {
namespace {

constexpr size_t kErrorMessageBytesMax = 4096;  // of the wire contract

absl::Status Stopped(const ActiveLease& lease) {
  if (lease.cancelled) {
    return Error(absl::StatusCode::kCancelled, "LEASE_CANCELLED", "cancelled by the coordinator");
  }
  if (lease.released) {
    return Error(absl::StatusCode::kCancelled, "WORKER_LEAVING",
                 "the worker was asked to stop and gave the unit back");
  }
  return Error(absl::StatusCode::kCancelled, "LEASE_LOST",
               "the lease could not be renewed in time");
}

}  // namespace

Json ActiveLease::LogFields() const {
  Json fields;
  fields["run"] = lease.run();
  fields["unit"] = lease.unit();
  fields["attempt"] = lease.attempt();
  fields["kind"] = lease.kind();
  fields["lease"] = lease.lease_id();
  return fields;
}

bool IsRetryable(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return false;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound: {
      // Bytes of ours that went wrong on the way are not the content's fault.
      const std::string reason = ReasonOf(status);
      return reason == "DOWNLOAD_CORRUPT" || reason == "BLOB_MISSING" ||
             reason == "SIZE_MISMATCH" || reason == "FILE_MISSING";
    }
    default:
      return true;
  }
}

void SetError(const absl::Status& status, v1::UnitResult* result) {
  result->clear_result_json();
  result->clear_blobs();
  v1::ErrorInfo* error = result->mutable_error();
  error->set_code(StatusCodeName(status.code()));
  error->set_reason(ReasonOf(status));
  // A message may quote a file's bytes; the wire refuses what is no UTF-8, again and again.
  error->set_message(CutUtf8(ScrubUtf8(MessageOf(status)), kErrorMessageBytesMax));
  result->set_retryable(IsRetryable(status));
  if (const Json details = DetailsOf(status); details.is_object()) {
    result->set_error_fields_json(details.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

v1::UnitResult LeaseWorker::Execute(ActiveLease* lease) {
  LogLine("info", "unit started", lease->LogFields());
  AssayKillPoint("agent:leased");
  const int64_t start_ms = clock_->MonotonicMillis();
  v1::UnitResult result;
  result.set_lease_id(lease->lease.lease_id());
  const std::string out_dir = JoinPath(work_dir_, "out");
  absl::Status status = RemoveTree(out_dir);
  if (status.ok()) status = EnsureDirectory(out_dir);
  if (status.ok()) status = Work(lease, out_dir, &result);
  if (!lease->GoOn()) status = Stopped(*lease);
  if (!status.ok()) SetError(status, &result);
  result.set_wall_ms(clock_->MonotonicMillis() - start_ms);
  RemoveTree(out_dir).IgnoreError();
  Json fields = lease->LogFields();
  fields["wall_ms"] = result.wall_ms();
  if (!status.ok()) fields.update(LogFields(status));
  LogLine(status.ok() ? "info" : "warn", status.ok() ? "unit done" : "unit failed", fields);
  return result;
}

absl::Status LeaseWorker::Work(ActiveLease* lease, const std::string& out_dir,
                               v1::UnitResult* result) {
  const std::function<bool()> go_on = [lease] { return lease->GoOn(); };
  ASSAY_ASSIGN_OR_RETURN(const LocalUnit local,
                         ResolveUnit(lease->lease.unit_json(), inputs_, go_on));
  if (local.fresh_ranks) ASSAY_RETURN_IF_ERROR(runner_->Restart());
  ASSAY_ASSIGN_OR_RETURN(const UnitOutcome outcome, RunUnit(lease, local.unit, out_dir));
  AssayKillPoint("agent:computed");
  std::vector<OutputFile> files;
  ASSAY_ASSIGN_OR_RETURN(const Json exported, ExportResult(local.unit.value("kind", ""),
                                                           outcome.result, out_dir, &files));
  ASSAY_RETURN_IF_ERROR(Push(lease, files, result));
  AssayKillPoint("agent:pushed");
  result->set_result_json(exported.dump(-1, ' ', false, Json::error_handler_t::replace));
  Json counters = Json::array();
  for (const RankCounters& rank : outcome.counters) {
    counters.push_back(
        {{"multiply_adds", rank.multiply_adds}, {"weight_bytes", rank.weight_bytes}});
  }
  result->set_counters_json(counters.dump());
  result->set_rank_attempts(outcome.attempts);
  return absl::OkStatus();
}

absl::StatusOr<UnitOutcome> LeaseWorker::RunUnit(ActiveLease* lease, const Json& unit,
                                                 const std::string& out_dir) {
  const UnitProgress progress = [lease](uint64_t done, uint64_t total) {
    lease->contexts_done = static_cast<int64_t>(done);
    lease->contexts_total = static_cast<int64_t>(total);
    return lease->GoOn();
  };
  // A cancel that comes when a unit has just ended hits the next one: that one is run again.
  for (int attempt = 0;; ++attempt) {
    {
      const std::lock_guard lock(mutex_);
      if (!lease->GoOn()) return Stopped(*lease);
      running_ = lease;
    }
    absl::StatusOr<UnitOutcome> outcome = runner_->Run(unit, out_dir, progress);
    {
      const std::lock_guard lock(mutex_);
      running_ = nullptr;
    }
    const bool stray = absl::IsCancelled(outcome.status()) && lease->GoOn() && attempt == 0;
    if (!stray) return outcome;
  }
}

void LeaseWorker::CancelIfDone(const ActiveLease& lease) {
  const std::lock_guard lock(mutex_);
  if (running_ == &lease && !lease.GoOn()) runner_->Cancel();
}

absl::Status LeaseWorker::Push(ActiveLease* lease, const std::vector<OutputFile>& files,
                               v1::UnitResult* result) {
  std::vector<std::string> sha256s;
  for (const OutputFile& file : files) sha256s.push_back(file.sha256);
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> missing,
                         inputs_.store->FindMissing(sha256s));
  for (const OutputFile& file : files) {
    if (!lease->GoOn()) return Stopped(*lease);
    if (std::find(missing.begin(), missing.end(), file.sha256) != missing.end()) {
      ASSAY_RETURN_IF_ERROR(inputs_.store->Push(file.path, file.sha256, file.size,
                                                [lease] { return lease->GoOn(); }));
    }
    v1::BlobRef* blob = result->add_blobs();
    blob->set_sha256(file.sha256);
    blob->set_size(file.size);
    // The store has verified the digest, so the replay that follows can read the file from here. A
    // cache without room for it is no failure.
    if (FileExists(file.path))
      inputs_.cache->Adopt(file.sha256, file.size, file.path).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace assay
