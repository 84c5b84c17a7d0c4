#include "server/engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <utility>

#include "openssl/rand.h"
#include "server/core/unit_document.h"
#include "server/engine/batch.h"
#include "server/engine/consistency.h"
#include "server/engine/restore.h"
#include "server/engine/sealer.h"
#include "server/engine/store_keys.h"
#include "server/engine/suite_cache.h"
#include "server/engine/vetting.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int kExitDamaged = 20, kExitFailed = 1;
constexpr int64_t kWaitStepMs =
    500;  // how often a long poll looks whether its caller is still there
constexpr size_t kBatchMax = 256;

size_t ReadyUnits(const State& s) {
  size_t units = 0;
  for (const auto& [of, queues] : s.ready.classes()) {
    for (const auto& [model, queue] : queues.by_model) units += queue.units.size();
  }
  return units;
}

std::string RandomHex() {
  uint8_t bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return "";
  return HexOf(bytes);
}

}  // namespace

void LogJson(std::string_view level, std::string_view message, Json fields) {
  Json line = Json::object();
  line["time"] = FormatUtc(Clock::Real()->UnixMillis());
  line["level"] = level;
  line["message"] = message;
  line.update(fields);
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Engine::Engine(EngineOptions options) : options_(std::move(options)) {
  if (options_.clock == nullptr) options_.clock = Clock::Real();
  if (!options_.fatal) {
    options_.fatal = [](const absl::Status& status) {
      LogJson("fatal", MessageOf(status), {{"reason", ReasonOf(status)}});
      std::_Exit(ReasonOf(status) == "STORE_DAMAGED" ? kExitDamaged : kExitFailed);
    };
  }
}

Engine::~Engine() { Stop(); }

Now Engine::now() const {
  return {options_.clock->UnixMillis(), options_.clock->MonotonicMillis()};
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine(std::move(options)));
  const EngineOptions& o = engine->options_;
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(o.data_dir, 0750));
  ASSAY_ASSIGN_OR_RETURN(engine->catalogue_, Catalogue::Open({o.data_dir, o.anchor_path}));
  DiskGuardOptions guard;
  guard.dir = o.data_dir;
  guard.min_free_bytes = o.min_free_bytes;
  guard.ballast_bytes = o.ballast_bytes;
  ASSAY_ASSIGN_OR_RETURN(engine->guard_, DiskGuard::Open(guard));
  FileBlobStoreOptions blobs;
  blobs.dir = JoinPath(o.data_dir, "blobs");
  blobs.max_blob_bytes = o.max_blob_bytes;
  blobs.max_stored_bytes = o.max_store_bytes;
  blobs.guard = engine->guard_.get();
  ASSAY_ASSIGN_OR_RETURN(engine->blobs_, FileBlobStore::Open(blobs));
  engine->suites_ =
      std::make_unique<SuiteCache>(engine->blobs_.get(), JoinPath(o.data_dir, "suites"));
  engine->sealer_ = std::make_unique<Sealer>(engine.get());
  ASSAY_RETURN_IF_ERROR(engine->Load());
  engine->ticker_ = std::thread([e = engine.get()] { e->TickLoop(); });
  return engine;
}

absl::Status Engine::Load() {
  {
    StoredRows stored;
    ASSAY_RETURN_IF_ERROR(catalogue_->LoadAll([&](const Row& row) { stored.Absorb(row); }));
    ASSAY_RETURN_IF_ERROR(RefusalOf(CheckRows(stored), options_.data_dir));
    ASSAY_RETURN_IF_ERROR(RefusalOf(CheckSealed(stored.state, *blobs_), options_.data_dir));
    state_ = std::move(stored.state);
  }
  state_.options = options_.core;
  ASSAY_ASSIGN_OR_RETURN(keys_,
                         OpenStoreKeys(options_.data_dir, options_.signer, state_, now().unix_ms));
  ASSAY_ASSIGN_OR_RETURN(const bool restored, IsRestored(options_.data_dir));
  const Outcome outcome =
      Execute({"coordinator", Start{RandomHex(), restored ? kRestoredEpochs : 1}});
  ASSAY_RETURN_IF_ERROR(outcome.status);
  if (restored) ASSAY_RETURN_IF_ERROR(EndRestore(options_.data_dir));
  const std::vector<std::string> missing = MissingInputs(state_, *blobs_);
  if (missing.empty()) return absl::OkStatus();
  LogJson("warn", "blobs of captures or heads are gone; what they held counts as never made",
          {{"blobs", missing.size()}, {"first", missing.front()}});
  return Execute({"coordinator", ForgetBlobs{missing}}).status;
}

absl::Status Engine::Gate(const Command& command) const {
  const bool adds = std::holds_alternative<CreateRun>(command.body) ||
                    std::holds_alternative<AddResources>(command.body);
  if (!adds) return absl::OkStatus();
  if (draining_ && std::holds_alternative<CreateRun>(command.body)) {
    return UnavailableError("DRAINING", "the coordinator is stopping; try again in a moment");
  }
  return guard_->CheckRoom(0);
}

Outcome Engine::Execute(Command command) {
  if (absl::Status gate = Gate(command); !gate.ok()) {
    Outcome refused;
    refused.status = std::move(gate);
    return refused;
  }
  Pending mine{&command, {}, false};
  std::unique_lock<std::mutex> lock(queue_mutex_);
  queue_.push_back(&mine);
  queue_cv_.wait(lock, [&] { return mine.done || !busy_; });
  while (!mine.done) {
    busy_ = true;
    std::vector<Pending*> batch;
    while (!queue_.empty() && batch.size() < kBatchMax) {
      batch.push_back(queue_.front());
      queue_.pop_front();
    }
    lock.unlock();
    RunBatch(batch);
    lock.lock();
    for (Pending* p : batch) p->done = true;
    busy_ = false;
    queue_cv_.notify_all();
  }
  lock.unlock();
  Perform(mine.outcome.effects);
  return std::move(mine.outcome);
}

void Engine::RunBatch(const std::vector<Pending*>& batch) {
  std::unique_lock<std::shared_mutex> lock(state_mutex_);
  std::vector<const Command*> commands;
  std::vector<Outcome> outcomes;
  for (const Pending* p : batch) commands.push_back(p->command);
  const absl::Status status = ApplyAndCommit(
      state_, *catalogue_, commands, [this] { return now(); }, &outcomes);
  if (!status.ok()) options_.fatal(status);
  for (size_t i = 0; i < batch.size(); ++i) batch[i]->outcome = std::move(outcomes[i]);
}

void Engine::Perform(const Effects& effects) {
  for (const std::string& run : effects.seal) sealer_->Enqueue(run);
  if (!effects.wake_workers && effects.changed.empty()) return;
  {
    std::lock_guard<std::mutex> lock(change_mutex_);
    ++version_;
    change_cv_.notify_all();
  }
  // Not for new work alone: a change of a run may be what lets a worker take units that wait.
  if (const size_t units = Read(ReadyUnits); units > 0) polls_.Offer(units);
}

bool Engine::WaitForWork(uint64_t offers, int64_t until, const std::function<bool()>& cancelled) {
  LongPolls::Poll poll(&polls_, offers);
  while (!cancelled() && !stopping_) {
    const int64_t left = until - options_.clock->MonotonicMillis();
    if (left <= 0 || poll.Wait(std::min(kWaitStepMs, left))) break;
  }
  return poll.Leave();
}

void Engine::PassOn() {
  if (Read(ReadyUnits) > 0) polls_.PassOn();
}

uint64_t Engine::WaitChange(uint64_t version, int64_t ms) {
  std::unique_lock<std::mutex> lock(change_mutex_);
  change_cv_.wait_for(lock, std::chrono::milliseconds(ms),
                      [&] { return version_ != version || stopping_; });
  return version_;
}

// An input that a worker could not read may be damaged here: every blob that the unit names is
// digested, and dropped when its bytes have changed.
void Engine::FindDamage(LeaseResult* result) {
  const std::string& reason = result->error.reason;
  if (reason != "DOWNLOAD_CORRUPT" && reason != "BLOB_MISSING" && reason != "BLOB_CORRUPT") return;
  const std::set<std::string> blobs = Read([&](const State& s) {
    const auto lease = s.leases.find(result->lease);
    return lease == s.leases.end() ? std::set<std::string>()
                                   : BlobsOfUnit(s, s.units.at(lease->second.unit));
  });
  for (const std::string& sha256 : blobs) {
    const auto gone = blobs_->DropDamaged(sha256);
    if (!gone.ok() || !*gone) continue;
    LogJson("error", "a blob was damaged and is dropped", {{"blob", sha256}});
    result->damaged.push_back(sha256);
  }
}

void Engine::VetResults(Synchronize* command) {
  for (LeaseResult& result : command->results) {
    if (result.result_json.empty()) {
      FindDamage(&result);
      continue;
    }
    UnitExpectation expected;
    const bool found = Read([&](const State& s) {
      const auto lease = s.leases.find(result.lease);
      if (lease == s.leases.end()) return false;
      expected = ExpectationOf(s, s.units.at(lease->second.unit));
      return true;
    });
    if (!found) continue;
    if (const absl::Status status = VetResult(*blobs_, expected, result.result_json);
        !status.ok()) {
      result.vetting = {"INVALID_ARGUMENT", ReasonOf(status), MessageOf(status)};
    }
  }
}

absl::StatusOr<std::vector<UnusedCapture>> Engine::DropUnused(
    const std::string& principal, const std::vector<std::string>& captures, bool sealed) {
  const std::lock_guard<std::mutex> one_at_a_time(maintenance_);
  std::set<std::string> blobs;
  std::vector<UnusedCapture> unused = Read([&](const State& s) {
    std::vector<UnusedCapture> found = UnusedCaptures(s, captures, sealed);
    for (const UnusedCapture& capture : found) {
      for (const FileMap& files : s.files.at(capture.id)) {
        for (const auto& [index, file] : files) blobs.insert(file.sha256);
      }
    }
    return found;
  });
  DropCaptures command{{}, sealed};
  for (const UnusedCapture& capture : unused) command.captures.push_back(capture.id);
  const Outcome outcome = Execute({principal, command});
  if (!outcome.status.ok()) return outcome.status;
  // A worker that has just found one of these blobs here will be told that it is missing, and
  // makes it again.
  Read([&](const State& s) {
    for (const auto& [id, generations] : s.files) {
      for (const FileMap& files : generations) {
        for (const auto& [index, file] : files) blobs.erase(file.sha256);
      }
    }
    return 0;
  });
  for (const std::string& sha256 : blobs) ASSAY_RETURN_IF_ERROR(blobs_->Remove(sha256));
  return unused;
}

absl::StatusOr<LeaseDocument> Engine::Document(const Grant& grant) {
  const std::string suite_id =
      Read([&](const State& s) { return SuiteOfUnit(s, s.units.at(grant.unit)); });
  std::shared_ptr<const Suite> suite;
  if (!suite_id.empty()) {
    ASSAY_ASSIGN_OR_RETURN(suite, suites_->Get(suite_id));
  }
  LeaseDocument document;
  document.grant = grant;
  try {
    absl::StatusOr<std::string> text = Read([&](const State& s) -> absl::StatusOr<std::string> {
      document.unit = s.units.at(grant.unit);
      return BuildUnitDocument(s, document.unit, suite.get());
    });
    ASSAY_ASSIGN_OR_RETURN(document.unit_json, std::move(text));
  } catch (const std::exception& error) {
    return InternalError("UNIT_DOCUMENT_FAILED", "unit " + std::to_string(grant.unit) + ": " +
                                                     error.what() +
                                                     "; this is a bug, please report it");
  }
  return document;
}

std::vector<LeaseDocument> Engine::Documents(SyncAnswer* answer) {
  std::vector<LeaseDocument> out;
  std::vector<Grant> kept;
  for (const Grant& grant : answer->start) {
    absl::StatusOr<LeaseDocument> document = Document(grant);
    if (document.ok()) {
      kept.push_back(grant);
      out.push_back(*std::move(document));
      continue;
    }
    const absl::Status& status = document.status();
    LogJson("error", MessageOf(status), {{"reason", ReasonOf(status)}, {"unit", grant.unit}});
    const Fault fault{std::string(absl::StatusCodeToString(status.code())), ReasonOf(status),
                      MessageOf(status)};
    Execute({"coordinator", DocumentFailed{grant.lease, fault}});
  }
  answer->start = std::move(kept);
  return out;
}

absl::StatusOr<SyncResult> Engine::Sync(const std::string& principal, Synchronize command,
                                        int64_t wait_ms, const std::function<bool()>& cancelled) {
  command.call = ++calls_;
  VetResults(&command);
  const int64_t slots = command.free_slots;
  const int64_t deadline = options_.clock->MonotonicMillis() + wait_ms;
  struct Turn {
    Engine* engine;
    bool woken = false;
    ~Turn() { Used(false); }
    void Used(bool took) {
      if (std::exchange(woken, false) && !took) engine->PassOn();
    }
  } turn{this};
  while (true) {
    const uint64_t seen = version_, offers = polls_.offers();
    command.free_slots = draining_ || guard_->low() ? 0 : slots;
    Outcome outcome = Execute({principal, command});
    if (!outcome.status.ok()) return outcome.status;
    SyncResult result;
    result.answer = std::get<SyncAnswer>(std::move(outcome.answer));
    turn.Used(!result.answer.start.empty());
    const int64_t left = deadline - options_.clock->MonotonicMillis();
    if (!result.answer.empty() || left <= 0 || draining_ || stopping_) {
      result.start = Documents(&result.answer);
      return result;
    }
    command.results.clear();
    // The lease clock runs on while the call waits; asking again within a third of it keeps the
    // worker alive.
    const int64_t again =
        options_.clock->MonotonicMillis() + std::min(left, options_.core.lease_ms / 3 + 1);
    if (command.leases.empty()) turn.woken = WaitForWork(offers, again, cancelled);
    // One that works hears of whatever may end its leases.
    while (!command.leases.empty() && version_ == seen &&
           options_.clock->MonotonicMillis() < again && !cancelled() && !stopping_) {
      WaitChange(seen, std::min(kWaitStepMs,
                                std::max<int64_t>(1, again - options_.clock->MonotonicMillis())));
    }
    // A caller that has gone away must not be granted a lease.
    if (cancelled())
      return Error(absl::StatusCode::kCancelled, "CALL_CANCELLED", "the worker ended the call");
  }
}

absl::StatusOr<std::shared_ptr<const Suite>> Engine::GetSuite(const std::string& id) {
  return suites_->Get(id);
}

absl::StatusOr<SuiteRow> Engine::AddSuite(const std::string& principal,
                                          const std::string& manifest_sha256) {
  ASSAY_ASSIGN_OR_RETURN(const auto suite, suites_->Get(manifest_sha256));
  SuiteRow row;
  row.id = suite->manifest_sha256;
  row.suite_token_sha256 = suite->suite_token_sha256;
  row.schema = suite->schema;
  row.model = suite->model;
  row.contexts = static_cast<int64_t>(suite->contexts.size());
  row.context_length = suite->context_length;
  row.vocab_size = suite->vocab_size;
  row.create_ms = options_.clock->UnixMillis();
  const Outcome outcome = Execute({principal, AddResources{{row}}});
  ASSAY_RETURN_IF_ERROR(outcome.status);
  return Read([&](const State& s) { return s.suites.at(row.id); });
}

SealStats Engine::seal_stats() const { return sealer_->stats(); }

uint64_t Engine::blob_bytes_written() const { return blobs_->written_bytes(); }

void Engine::TickLoop() {
  while (!stopping_) {
    {
      std::unique_lock<std::mutex> lock(change_mutex_);
      change_cv_.wait_for(lock, std::chrono::milliseconds(options_.tick_ms),
                          [&] { return stopping_.load(); });
    }
    if (stopping_) return;
    const bool low = guard_->low();
    guard_->Tend();
    if (low && !guard_->low()) polls_.WakeAll();  // while it was low, nobody was given anything
    Execute({"coordinator", Tick{guard_->low()}});
  }
}

void Engine::BeginDrain() {
  draining_ = true;
  polls_.WakeAll();
  std::lock_guard<std::mutex> lock(change_mutex_);
  ++version_;
  change_cv_.notify_all();
}

void Engine::Stop() {
  if (stopping_.exchange(true)) return;
  polls_.WakeAll();
  {
    std::lock_guard<std::mutex> lock(change_mutex_);
    change_cv_.notify_all();
  }
  if (ticker_.joinable()) ticker_.join();
  if (sealer_) sealer_->Stop();
}

}  // namespace assay
