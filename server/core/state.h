// Everything the coordinator knows, in memory: committed rows, what is derived from them, and what
// is never stored (workers, lease clocks). Only Apply (apply.h) changes it, through a Txn that
// records each changed row.

#ifndef ASSAY_SERVER_CORE_STATE_H_
#define ASSAY_SERVER_CORE_STATE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/core/ready.h"
#include "storage/db/row.h"

namespace assay {

// Time as the shell saw it: both values of one moment.
struct Now {
  int64_t unix_ms = 0;  // for people and records
  int64_t mono_ms = 0;  // for leases and waits; never goes back
};

// Every limit and wait of the core.
struct CoreOptions {
  int64_t lease_ms = 30'000;
  int64_t busy_sync_ms = 2'000;  // told to workers that hold a lease
  int64_t idle_sync_ms = 0;      // told to idle workers: they long-poll
  int64_t unit_contexts = 16;    // default contexts per unit
  int64_t unit_contexts_max = 4096;
  int64_t unit_tokens_max = 250'000;  // tokens in one unit; keeps its document below 3 MiB
  int64_t unit_files_max = 10'000;    // hidden files that a replay unit names: likewise
  int64_t failures_max = 3;           // failures of one unit before it is POISONED
  int64_t losses_max = 10;            // leases of one unit lost with their worker, likewise
  int64_t model_wait_ms =
      30'000;  // no live worker has the model: wait this long, then MODEL_UNAVAILABLE
  int64_t worker_wait_ms =
      600'000;  // no live worker may take a unit: wait this long, then WORKERS_UNAVAILABLE
  int64_t disk_wait_ms = 600'000;  // the disk is low: active runs wait this long, then DISK_LOW
  // Of 1000 captures and replays, how many are done again by another worker (docs/coordinator.md).
  int64_t recheck_per_mille = 0;
  size_t active_runs_max = 10'000;
  size_t runs_per_principal_max = 0;  // of those, how many one principal may have; 0: all
  size_t candidates_max = 64;
  size_t workers_max = 4096;
  std::string build_id;
};

struct WorkerState {
  std::string id, incarnation, build, host_json;
  int64_t tp = 0;
  std::string replay_identity, capture_identity;  // canonical JSON; "" = cannot do that
  bool draining = false, live = false;
  uint64_t call = 0;  // the newest one handled
  int64_t seen_mono_ms = 0, seen_unix_ms = 0;
  std::set<std::string> models_absent, models_present;
  std::set<std::string> leases;
  std::deque<std::string> replaced;  // earlier incarnations, the last few
};

struct LeaseState {
  uint64_t unit = 0;
  std::string worker, incarnation;
  int64_t expires_mono_ms = 0;
  int64_t done = 0, total = 0;  // as reported: contexts or positions
};

// Counts since start, for metrics.
struct CoreCounters {
  uint64_t leases_granted = 0, leases_expired = 0, results_accepted = 0, results_duplicate = 0,
           results_different = 0, results_fenced = 0, results_invalid = 0, units_poisoned = 0,
           runs_created = 0, reports_sealed = 0, reports_reused = 0, rechecks_same = 0,
           rechecks_different = 0, rechecks_impossible = 0;
  // Units, runs and workers that scheduling looked at: what its cost per unit is counted in.
  mutable uint64_t rows_visited = 0;
};

// How many units of a run there are.
struct UnitCounts {
  int64_t total = 0, open = 0, blocked = 0, done = 0;
};

using FileMap = std::map<int64_t, CaptureFileRow>;

struct State {
  CoreOptions options;
  uint64_t epoch = 0;

  MetaRow meta;
  std::map<std::string, SuiteRow> suites;
  std::map<std::string, ModelRow> models;
  std::map<std::string, HeadRow> heads;
  std::map<std::string, CaptureRow> captures;
  std::map<std::string, std::array<FileMap, 2>> files;  // capture -> generation -> context index
  std::map<std::string, RunRow> runs;
  std::map<uint64_t, UnitRow> units;
  std::map<std::string, ReportRow> reports;
  std::map<std::string, ReceiptRow> receipts;
  std::map<std::string, RequestIdRow> requests;

  // Derived from rows.
  std::map<uint64_t, std::string> run_order;     // creation serial -> run
  std::set<std::string> active_runs;             // not ended
  std::map<std::string, size_t> active_runs_of;  // how many of them a principal has
  std::set<uint64_t> ready_units;
  ReadyIndex ready;  // the same units, for scheduling
  std::map<std::pair<UnitKind, UnitState>, int64_t> units_by_state;
  std::map<RunState, int64_t> runs_by_state;
  std::map<uint64_t, int64_t> waiting_runs;  // PENDING or QUEUED: serial -> when created, unix ms
  std::map<std::string, UnitCounts> unit_counts;          // of a run's own units
  std::map<std::string, std::set<std::string>> users_of;  // model or capture -> active runs
  // Active runs that a worker who comes or goes can matter to; kept by the planner.
  std::set<std::string> unsettled_runs;
  std::map<std::string, std::set<uint64_t>> units_of_run, units_of_capture, units_of_model;
  std::map<std::string, std::string> report_of_work;  // fingerprint -> report

  // Never stored.
  std::map<std::string, WorkerState> workers;
  std::map<std::string, LeaseState> leases;
  std::map<std::string, int64_t> run_stuck_since;
  std::optional<int64_t> disk_low_since;                // mono ms
  std::set<std::pair<std::string, std::string>> noted;  // (run, text) notes already made
  CoreCounters counters;

  // Puts a committed row in place; used by Txn and when loading.
  void Absorb(const Row& row);
  // Takes a removed row out.
  void Forget(const Row& row);
};

// What the shell does after the mutations are durable.
struct Effects {
  bool wake_workers = false;      // work or news for long polls
  std::set<std::string> changed;  // runs with new events
  std::set<std::string> seal;     // runs that entered SEALING
};

// One command's changes. `state` changes at once; `rows` are committed by the shell before anybody
// sees an answer.
class Txn {
 public:
  Txn(State& state, const Now& now) : s(state), now(now) {}

  template <class R>
  void Put(const R& row) {
    s.Absorb(row);
    rows.emplace_back(row);
  }
  // The row goes; `row` needs its key only, but a run its request id and a unit its run.
  void Remove(const Row& row) {
    s.Forget(row);
    removed.push_back(row);
  }
  uint64_t NextSerial() {
    meta_changed_ = true;
    return s.meta.next_serial++;
  }
  // Appends an event to `run` (its row is put by the caller with the new revision).
  void Event(RunRow* run, EventKind kind, std::string reason, std::string message);
  // As Event, but at most once per (run, message).
  void NoteOnce(RunRow* run, std::string reason, std::string message);
  void ChangeMeta() { meta_changed_ = true; }
  std::vector<Row> Finish();  // all rows, the meta row last when it changed

  State& s;
  const Now now;
  std::vector<Row> rows, removed;
  Effects effects;

 private:
  bool meta_changed_ = false;
};

}  // namespace assay

#endif  // ASSAY_SERVER_CORE_STATE_H_
