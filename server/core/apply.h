// The coordinator as a state machine: Apply(state, command, now) -> rows to commit, effects,
// answer.
//
// Deterministic: no clock, disk, network or randomness. The shell (server/engine) commits the rows
// in one synced batch and only then gives answers away and performs effects. States and transitions
// are those of docs/coordinator.md.

#ifndef ASSAY_SERVER_CORE_APPLY_H_
#define ASSAY_SERVER_CORE_APPLY_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "server/core/state.h"

namespace assay {

// ---- commands
// -------------------------------------------------------------------------------------------------------

// A run as the client asked for it. The shell has resolved suite, contexts, sentinels,
// context_length and max_token from the suite; id, serial, state and times are the core's. Answer:
// the run (existing or new).
struct CreateRun {
  RunRow run;
};
struct CancelRun {
  std::string run;
};
// Resources whose content the shell has checked: suites, models, heads, captures with their files.
struct AddResources {
  std::vector<Row> rows;  // rows that exist already are left as they are
};

// Forgets the hidden files of those of `captures` that UnusedCaptures still gives.
struct DropCaptures {
  std::vector<std::string> captures;
  bool sealed = false;
};

// Blobs that are gone or whose bytes have changed: what they held counts as never made.
struct ForgetBlobs {
  std::vector<std::string> blobs;
};

// Removes what ExpiredRuns still gives for `before_ms` of `runs`. `events`: keys of their events.
struct ExpireRuns {
  int64_t before_ms = 0;
  std::vector<std::string> runs;
  std::vector<EventRow> events;
};

struct LeaseProgress {
  std::string lease;
  int64_t done = 0, total = 0;
};
struct LeaseResult {
  std::string lease;
  std::string result_json;  // success
  Fault error;              // failure
  bool retryable = false;
  std::string error_operand;  // operand a refused row belongs to ("ref", "cand3"); "" when not said
  std::string counters_json;
  int64_t wall_ms = 0, rank_attempts = 0;
  // Set by the shell after an input could not be read: blobs of the unit that it found damaged and
  // dropped.
  std::vector<std::string> damaged;
  Fault vetting;  // set by the shell when the result names a blob that is not there or not what it
                  // says
};
struct Synchronize {
  uint64_t call = 0;  // order in which the process began its workers' calls; 0: not said
  std::string worker, incarnation, build, host_json;
  int64_t tp = 1;
  std::string replay_identity, capture_identity;
  bool draining = false;
  int64_t free_slots = 0;
  std::vector<LeaseProgress> leases;
  std::vector<LeaseResult> results;
};
// Expires leases, notices lost workers, ends waits. Every second or so. `disk_low`: no work is
// given out, because results could not be stored; runs say so, and fail when it stays so.
struct Tick {
  bool disk_low = false;
};
// A candidate's report is built, its blobs are durable; rows hold report, receipt, log nodes. Ends
// the candidate, and the run with its last one.
struct SealDone {
  std::string run;
  size_t candidate = 0;
  ReportRow report;
  ReceiptRow receipt;
  std::vector<LogNodeRow> nodes;
  uint64_t log_size = 0;
  std::string checkpoint;
};
// The candidate's report cannot be made; it fails, the others go on.
struct SealFailed {
  std::string run;
  size_t candidate = 0;
  Fault error;
};
// The document of a lease just granted cannot be made, so the worker will never hear of the lease.
// Counted as a failure of the unit: an error that stays poisons it instead of being tried for ever.
struct DocumentFailed {
  std::string lease;
  Fault error;
};
// First command of a process: leases of earlier epochs are void. Answer: nothing.
struct Start {
  std::string store_id;     // used when the store is new
  uint64_t epoch_step = 1;  // more after a backup was restored: epochs given out since it was taken
                            // must not come again
};

struct Command {
  std::string principal;  // who asks: "local", a token's name, "coordinator"
  std::variant<CreateRun, CancelRun, AddResources, Synchronize, Tick, SealDone, SealFailed,
               DocumentFailed, Start, DropCaptures, ForgetBlobs, ExpireRuns>
      body;
};

// ---- answers
// --------------------------------------------------------------------------------------------------------

enum class AckKind { kAccepted, kDuplicate, kDifferent, kStale, kInvalid };
struct Ack {
  std::string lease;
  AckKind kind = AckKind::kStale;
  std::string message;
};
struct Grant {
  std::string lease;
  uint64_t unit = 0;
  std::string run;  // a run that waits for it; "" for none
};
struct SyncAnswer {
  std::vector<Grant> start;
  std::vector<std::string> cancel, renewed;
  std::vector<Ack> acks;
  int64_t next_sync_ms = 0;
  bool empty() const { return start.empty() && cancel.empty() && acks.empty(); }
};
struct RunAnswer {
  std::string run;
  bool existing = false;
};

struct Outcome {
  absl::Status status;  // a refused command changes nothing
  std::variant<std::monostate, SyncAnswer, RunAnswer> answer;
  std::vector<Row> rows, removed;
  Effects effects;
};

Outcome Apply(State& state, const Command& command, const Now& now);

// ---- used by the shell and by tests
// -----------------------------------------------------------------------------------

// Digest over what determines a candidate's report: identical work has an identical fingerprint.
std::string WorkFingerprint(const RunRow& run, const CandidateRow& candidate);
// "own", "shared": head modes of the candidate once heads are known. A capture without a head of
// its own goes through the reference's: "shared" alone.
std::vector<std::string> HeadModes(const RunRow& run, const CandidateRow& candidate);
// Scored positions of each of the run's contexts.
int64_t ScoredPositions(const RunRow& run);
// Captures of `among` (all when empty) that hold files which no run that has not ended needs and,
// unless `sealed`, no sealed report was made of. By id.
struct UnusedCapture {
  std::string id;
  int64_t files = 0;
  uint64_t bytes = 0;
};
std::vector<UnusedCapture> UnusedCaptures(const State& state, const std::vector<std::string>& among,
                                          bool sealed);
// Runs that ended before `before_ms`. One without a sealed candidate goes as a whole; of the others
// only the units go (their results lie in the sealed documents), the run stays. By id.
struct ExpiredRun {
  std::string id;
  bool whole = false;
  std::vector<uint64_t> units;
};
std::vector<ExpiredRun> ExpiredRuns(const State& state, int64_t before_ms);
// Key of the row that remembers a run's request id.
std::string RequestKey(const RunRow& run);
std::string CaptureId(std::string_view model, std::string_view suite, std::string_view cut_point,
                      std::string_view identity_json);
std::string_view RunStateName(RunState state);
std::string_view UnitStateName(UnitState state);
std::string_view UnitKindName(UnitKind kind);

}  // namespace assay

#endif  // ASSAY_SERVER_CORE_APPLY_H_
