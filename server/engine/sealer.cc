#include "server/engine/sealer.h"

#include <algorithm>
#include <chrono>

#include "server/engine/seal_command.h"
#include "server/engine/seal_inputs.h"
#include "storage/base/digest.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/positions.h"

namespace assay {
namespace {

absl::Status PutArrays(const std::string& head, const PositionArrays& arrays, BlobStore& blobs,
                       std::vector<ArrayRow>* out) {
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    const std::string bytes = F64Bytes(arrays.f64[i]);
    ASSAY_ASSIGN_OR_RETURN(const std::string sha256, PutBlob(blobs, bytes));
    out->push_back({head, std::string(kF64Outputs[i]), "f64", sha256, bytes.size()});
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    const std::string bytes = I32Bytes(arrays.i32[i]);
    ASSAY_ASSIGN_OR_RETURN(const std::string sha256, PutBlob(blobs, bytes));
    out->push_back({head, std::string(kI32Outputs[i]), "i32", sha256, bytes.size()});
  }
  return absl::OkStatus();
}

constexpr std::chrono::milliseconds kRetry{1000};

}  // namespace

Sealer::Sealer(Engine* engine) : engine_(engine), thread_([this] { Loop(); }) {}

Sealer::~Sealer() { Stop(); }

void Sealer::Enqueue(const std::string& run) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(queue_.begin(), queue_.end(), run) == queue_.end()) queue_.push_back(run);
  cv_.notify_all();
}

void Sealer::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    cv_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

SealStats Sealer::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void Sealer::Loop() {
  while (true) {
    std::string run;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      cv_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      run = queue_.front();
      queue_.pop_front();
    }
    SealRun(run);
  }
}

void Sealer::SealRun(const std::string& run) {
  const size_t count =
      engine_->Read([&](const State& s) { return s.runs.at(run).candidates.size(); });
  for (size_t i = 0; i < count; ++i) {
    const bool open = engine_->Read([&](const State& s) {
      const RunRow& row = s.runs.at(run);
      return row.state == RunState::kSealing &&
             row.candidates[i].state == CandidateState::kComputed;
    });
    if (!open) continue;
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = SealWhenThereIsRoom(run, i);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++stats_.count;
      stats_.seconds += took.count();
      if (stop_) return;
    }
    if (status.ok()) continue;
    LogJson("error", MessageOf(status), {{"reason", ReasonOf(status)}, {"run", "runs/" + run}});
    const Fault fault{std::string(absl::StatusCodeToString(status.code())), ReasonOf(status),
                      MessageOf(status)};
    engine_->Execute({"coordinator", SealFailed{run, i, fault}});
  }
}

// Everything is computed by now: a disk that is full or a signer that is away for a while must not
// cost the result.
absl::Status Sealer::SealWhenThereIsRoom(const std::string& run, size_t candidate) {
  const auto give_up = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(engine_->options().core.disk_wait_ms);
  for (bool said = false;; said = true) {
    absl::Status status;
    try {
      status = SealCandidate(run, candidate);
    } catch (const std::exception& error) {  // must not end the process, and every later start
      status = InternalError("SEAL_FAILED", std::string("sealing ended with an exception: ") +
                                                error.what() + "; this is a bug, please report it");
    }
    // The disk, or the program that signs.
    if (status.code() != absl::StatusCode::kResourceExhausted &&
        status.code() != absl::StatusCode::kUnavailable) {
      return status;
    }
    if (!said) {
      LogJson("warn", "sealing waits: " + MessageOf(status),
              {{"reason", ReasonOf(status)}, {"run", "runs/" + run}});
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (cv_.wait_for(lock, kRetry, [this] { return stop_; })) return status;
    if (std::chrono::steady_clock::now() >= give_up) return status;
  }
}

absl::Status Sealer::SealCandidate(const std::string& run, size_t candidate) {
  const SealRows rows =
      engine_->Read([&](const State& s) { return CopySealRows(s, run, candidate); });
  BlobStore& blobs = engine_->blobs();
  ASSAY_ASSIGN_OR_RETURN(const auto suite, engine_->GetSuite(rows.run.suite));
  ASSAY_ASSIGN_OR_RETURN(const ReportInputs inputs, MakeReportInputs(rows, *suite, blobs));
  ASSAY_ASSIGN_OR_RETURN(const Json report, BuildReport(inputs));
  ASSAY_ASSIGN_OR_RETURN(const std::string report_bytes, ReportBytes(report));

  SealDone done;
  done.run = run;
  done.candidate = candidate;
  done.report.id = Sha256Hex(report_bytes);
  // The same work of another run: its seal stands.
  const bool sealed =
      engine_->Read([&](const State& s) { return s.reports.count(done.report.id) != 0; });
  if (sealed) {
    // Stored bytes that have changed since are replaced by these.
    std::vector<ArrayRow> same;
    for (const auto& [head, result] : inputs.heads) {
      ASSAY_RETURN_IF_ERROR(PutArrays(head, result.arrays, blobs, &same));
    }
    ASSAY_RETURN_IF_ERROR(PutBlob(blobs, report_bytes).status());
    return engine_->Execute({"coordinator", done}).status;
  }

  ASSAY_ASSIGN_OR_RETURN(const std::string execution,
                         MakeExecution(rows, done.report.id, engine_->options().core.build_id));
  for (const auto& [head, result] : inputs.heads) {
    ASSAY_RETURN_IF_ERROR(PutArrays(head, result.arrays, blobs, &done.report.arrays));
  }
  ASSAY_RETURN_IF_ERROR(PutBlob(blobs, report_bytes).status());
  AssayKillPoint("seal:report_stored");
  ASSAY_RETURN_IF_ERROR(PutBlob(blobs, execution).status());

  SealContent content;
  content.run = &rows.run;
  content.candidate = candidate;
  content.report = report_bytes;
  content.execution = execution;
  ASSAY_ASSIGN_OR_RETURN(content.inputs, InputsOfReport(report));
  ASSAY_RETURN_IF_ERROR(AddPublishedInputs(rows, &content.inputs));
  content.arrays = std::move(done.report.arrays);
  content.log_origin = engine_->options().log_origin;
  content.previous_checkpoint = engine_->Read([](const State& s) { return s.meta.checkpoint; });
  ASSAY_ASSIGN_OR_RETURN(SealCommand command,
                         MakeSealCommand(content, engine_->signer(), engine_->catalogue()));
  ASSAY_RETURN_IF_ERROR(PutBlob(blobs, command.receipt).status());
  AssayKillPoint("seal:receipt_stored");
  const absl::Status status = engine_->Execute({"coordinator", std::move(command.done)}).status;
  AssayKillPoint("seal:committed");
  return status;
}

}  // namespace assay
