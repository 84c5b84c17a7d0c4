// The shell around the core: commits what Apply says, then gives answers away and performs effects.
//
// Commands of many threads share synced batches: whoever comes first applies everything that waits,
// commits once and wakes the others. Readers see committed state only. A failed commit ends the
// process.

#ifndef ASSAY_SERVER_ENGINE_ENGINE_H_
#define ASSAY_SERVER_ENGINE_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/apply.h"
#include "server/engine/long_polls.h"
#include "storage/base/clock.h"
#include "storage/base/json.h"
#include "storage/blob/disk_guard.h"
#include "storage/blob/file_blob_store.h"
#include "storage/db/catalogue.h"
#include "storage/format/suite.h"
#include "storage/seal/command_signer.h"
#include "storage/seal/key_store.h"

namespace assay {

class Sealer;
class SuiteCache;

struct EngineOptions {
  std::string data_dir;
  std::string anchor_path;  // "" = in data_dir
  std::string log_origin = "assay.local/log";
  CoreOptions core;
  uint64_t min_free_bytes = uint64_t{512} << 20;
  uint64_t ballast_bytes = uint64_t{64} << 20;
  uint64_t max_blob_bytes = uint64_t{64} << 30;
  uint64_t max_store_bytes = 0;  // of all blobs; 0: no limit
  int64_t tick_ms = 500;
  CommandSignerOptions signer;  // program empty: the key in data_dir signs
  Clock* clock = nullptr;       // null: the real one
  // A failed commit: must not return. Null: logs and ends the process, with code 20 when
  // the store is damaged, else 1.
  std::function<void(const absl::Status&)> fatal;
};

// A leased unit as sent to a worker.
struct LeaseDocument {
  Grant grant;
  UnitRow unit;
  std::string unit_json;
};

struct SyncResult {
  SyncAnswer answer;
  std::vector<LeaseDocument> start;
};

struct SealStats {
  uint64_t count = 0;
  double seconds = 0;  // summed
};

// Thread-safe.
class Engine {
 public:
  // Opens the data folder (STORE_IN_USE, STORE_DAMAGED, STORE_VERSION, KEY_*, FILE_*), bumps the
  // epoch, takes up open seals.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(EngineOptions options);
  ~Engine();

  // Applies one command; durable when it returns. DISK_LOW for commands that add work while the
  // disk is low; DRAINING after BeginDrain for new runs.
  Outcome Execute(Command command);

  // A worker's call: results are vetted, the command applied, lease documents made. Waits up to
  // `wait_ms` while there is nothing to say; `cancelled` is asked now and then and ends the wait.
  absl::StatusOr<SyncResult> Sync(const std::string& principal, Synchronize command,
                                  int64_t wait_ms, const std::function<bool()>& cancelled);

  // Calls f(const State&) under a shared lock; f must be short and must not call the engine.
  template <class F>
  auto Read(F f) const {
    std::shared_lock<std::shared_mutex> lock(state_mutex_);
    return f(static_cast<const State&>(state_));
  }

  // Waits until something has changed after `version` (any run or worker) or `ms` have passed; the
  // new version.
  uint64_t WaitChange(uint64_t version, int64_t ms);
  uint64_t version() const { return version_; }
  size_t waiting_polls() const { return polls_.waiting(); }  // calls of Sync that wait for work

  absl::StatusOr<std::shared_ptr<const Suite>> GetSuite(const std::string& id);
  // Verifies the suite in blob `manifest_sha256` and its token blobs and adds it.
  absl::StatusOr<SuiteRow> AddSuite(const std::string& principal,
                                    const std::string& manifest_sha256);

  // Drops the files of those of `captures` that are unused (UnusedCaptures), rows first, then blobs
  // that nothing else names. What was dropped.
  absl::StatusOr<std::vector<UnusedCapture>> DropUnused(const std::string& principal,
                                                        const std::vector<std::string>& captures,
                                                        bool sealed);

  // Held by whoever removes blobs or copies the store, one at a time.
  std::mutex& maintenance() { return maintenance_; }

  FileBlobStore& blobs() { return *blobs_; }
  const Catalogue& catalogue() const { return *catalogue_; }
  const Signer& signer() const { return *keys_.signer; }
  const KeyList& keys() const { return keys_.list; }
  const EngineOptions& options() const { return options_; }
  Now now() const;
  SealStats seal_stats() const;
  bool disk_low() const { return guard_->low(); }
  uint64_t blob_bytes_written() const;

  void BeginDrain();
  bool draining() const { return draining_; }
  void Stop();  // ends threads; idempotent

 private:
  friend class Sealer;
  struct Pending {
    Command* command;
    Outcome outcome;
    bool done = false;
  };
  explicit Engine(EngineOptions options);
  absl::Status Load();
  void RunBatch(const std::vector<Pending*>& batch);
  void Perform(const Effects& effects);
  absl::Status Gate(const Command& command) const;
  void VetResults(Synchronize* command);
  void FindDamage(LeaseResult* result);
  absl::StatusOr<LeaseDocument> Document(const Grant& grant);
  // Documents of the leases that `answer` starts; one that cannot be made is taken out of it and
  // counts as a failure of its unit.
  std::vector<LeaseDocument> Documents(SyncAnswer* answer);
  // Until there may be work for one who looked at `offers`, `until` (monotonic ms), or the caller
  // is gone; whether it was woken.
  bool WaitForWork(uint64_t offers, int64_t until, const std::function<bool()>& cancelled);
  // A poll that was woken takes nothing: another one looks, if there is anything.
  void PassOn();
  void TickLoop();

  EngineOptions options_;
  std::unique_ptr<DiskGuard> guard_;
  std::unique_ptr<FileBlobStore> blobs_;
  std::unique_ptr<Catalogue> catalogue_;
  OpenKeys keys_;
  std::unique_ptr<SuiteCache> suites_;
  std::unique_ptr<Sealer> sealer_;

  mutable std::shared_mutex state_mutex_;
  State state_;

  std::mutex maintenance_;
  std::mutex queue_mutex_;
  std::condition_variable queue_cv_;
  std::deque<Pending*> queue_;
  bool busy_ = false;

  std::mutex change_mutex_;
  std::condition_variable change_cv_;
  std::atomic<uint64_t> version_{1};
  LongPolls polls_;
  std::atomic<uint64_t> calls_{0};  // Sync calls begun
  std::atomic<bool> draining_{false}, stopping_{false};
  std::thread ticker_;
};

// One JSON line on standard error: {"time","level","message",...fields}.
void LogJson(std::string_view level, std::string_view message, Json fields = Json::object());

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_ENGINE_H_
