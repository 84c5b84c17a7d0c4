// The catalogue's rows as plain structs: what the coordinator's core thinks in.
//
// Each row lists its stored fields once, in Fields(row, visitor): visitor(number, member) with the
// field numbers of proto/assay/store/v1/records.proto. Rows are values; names of other rows are
// ids, without "runs/" and the like. Times are ms since epoch, digests 64 hex characters.

#ifndef ASSAY_STORAGE_DB_ROWS_H_
#define ASSAY_STORAGE_DB_ROWS_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace assay {

// An error as a stored or transmitted value.
struct Fault {
  std::string code, reason, message;
  bool empty() const { return reason.empty(); }
};

struct SuiteRow {
  std::string id, suite_token_sha256, schema, model;
  int64_t contexts = 0, context_length = 0, vocab_size = 0, create_ms = 0;
};

struct ModelRow {
  std::string id, manifest_json;
  std::string facts_json, head;  // "" until the model's PREPARE unit is done
  int64_t create_ms = 0;
};

struct HeadRow {
  std::string id, file_sha256;
  uint64_t file_bytes = 0;
  std::string tensor, dtype;
  int64_t vocab = 0, hidden = 0, create_ms = 0;
  double max_abs = 0;  // largest |value|; 0 = all zero, or a row of before this was kept
};

struct CaptureRow {
  std::string id;
  std::string model;  // "" for an ingested capture of an unregistered model
  std::string suite;  // suite id
  std::string cut_point;
  std::string
      identity_json;   // engine and kernels (native) or stack fingerprint (ingest); canonical
  std::string origin;  // "native" or "ingest"
  std::string declared_json;  // candidate identity as the ingesting engine stated it; "" or JSON
  int64_t contexts_total = 0, create_ms = 0;
  // Of an imported capture directory: what its manifest says beside the files; canonical JSON or
  // "".
  std::string manifest_json;
};

struct CaptureFileRow {
  std::string capture;
  uint32_t generation = 0;  // 0: the capture, 1: its repeat over sentinel contexts
  int64_t index = 0;        // suite context index
  std::string sha256;       // "": the file is gone (damaged or pruned) and counts as never made
  uint64_t bytes = 0;
  int64_t rows = 0, width = 0;
  double max_abs = 0;  // as HeadRow::max_abs
};

struct OperandRow {
  std::string model;                      // "" when only a capture is known
  std::string capture;                    // "" until one is chosen
  std::string head;                       // "" until known
  std::string given_capture, given_head;  // as the run was asked
  // A bias of the operand's own head: blob, its size and tensor, and the content digest of the
  // values as little-endian F32. All empty: none.
  std::string bias_file;
  uint64_t bias_bytes = 0;
  std::string bias_tensor, bias;
  std::string
      head_origin_json;  // of given_head: what it was before it was rounded; canonical or ""
};

enum class CandidateState : uint32_t {
  kWaiting = 1,
  kComputed = 2,
  kSealed = 3,
  kFailed = 4,
  kCancelled = 5
};

struct CandidateRow {
  std::string label;
  OperandRow source;
  CandidateState state = CandidateState::kWaiting;
  Fault error;
  std::string report;  // report id when sealed
  bool reused = false;
  std::string fingerprint;  // of the work: identical work has an equal one
};

enum class RunState : uint32_t {
  kPending = 1,
  kQueued = 2,
  kRunning = 3,
  kSealing = 4,
  kSucceeded = 5,
  kFailed = 6,
  kCancelled = 7
};
inline bool IsTerminal(RunState s) { return s >= RunState::kSucceeded; }

struct RunRow {
  std::string id, principal, request_id, spec_sha256;
  std::string suite, filter;
  std::vector<int64_t> contexts;   // selected context indices, suite order
  std::vector<int64_t> sentinels;  // those of them that are sentinels
  int64_t context_length = 0;
  int64_t max_token = 0;  // largest token id in the selected contexts
  OperandRow reference;
  std::string reference_label;
  std::vector<CandidateRow> candidates;
  std::vector<std::string> heads;  // as asked; empty: own, and shared when heads differ
  std::string numeric_policy;
  int64_t unit_contexts = 0, row_tile = 0;
  bool fresh = false;
  int64_t valid_vocab = 0;
  double softcap = 0;
  bool allow_infinite = false, repeat_sentinels = true;
  RunState state = RunState::kPending;
  Fault error;
  std::string replay_identity_json;   // pinned with the first replay unit
  std::string capture_identity_json;  // preferred for the run's own captures: that of the first one
  int64_t create_ms = 0, end_ms = 0;
  int64_t seal_ms = 0;  // seal intent: set when SEALING begins; the only time in sealed documents
  uint64_t revision = 0;
  bool replay_planned = false, noise_planned = false;
  uint64_t serial = 0;          // order of creation
  std::string backend;          // replay backend as asked; "" = left to the workers
  std::string settled_backend;  // that of every accepted replay result; "" = none accepted yet
  double logit_scale = 0;       // of every head; 0 = 1
  int64_t score_from = 0;       // positions left out at the start of every context
  int64_t vocab_chunk = 0;      // of policy torch-bf16; 0 = none
  int64_t limit = 0;  // contexts asked for at most; 0 = all (contexts says which they are)
};

enum class UnitKind : uint32_t {
  kPrepare = 1,  // facts and head of `model`
  kCapture = 2,  // contexts of `capture`
  kRepeat = 3,   // the same contexts again, in fresh processes
  kReplay = 4,   // contexts of `run`, every candidate in `candidates`
  kNoise = 5     // replay of a capture against its repeat, contexts whose files differ
};
enum class UnitState : uint32_t {
  kBlocked = 1,
  kReady = 2,
  kLeased = 3,
  kDone = 4,
  kPoisoned = 5,
  kDropped = 6
};

struct AttemptRow {
  std::string lease, worker, incarnation, build;
  int64_t tp = 0;
  std::string host_json, identity_sha256;
  int64_t start_ms = 0, end_ms = 0;
  std::string outcome;  // "", "done", reason token of a failure, "expired", "cancelled", "lost"
  std::string counters_json;
  int64_t wall_ms = 0;
  int64_t rank_attempts = 0;  // 1 = no rank was lost; 0 = not said
};

struct UnitRow {
  uint64_t id = 0;
  UnitKind kind = UnitKind::kPrepare;
  std::string run;      // replay and noise units; "" for units shared by runs
  std::string model;    // prepare, capture and repeat
  std::string capture;  // capture, repeat and noise
  std::vector<int64_t> contexts;
  UnitState state = UnitState::kBlocked;
  int64_t failures = 0;  // attempts that count against the unit
  int64_t attempt = 0;   // leases so far
  std::string lease;     // current lease id while LEASED
  std::vector<AttemptRow> attempts;
  std::string result_json, result_sha256;
  Fault error;
  std::vector<uint32_t> candidates;    // replay: indices into the run's candidates
  std::vector<std::string> failed_on;  // workers on which it failed
  // The unit that this one does again to compare results; 0 = none. Then failed_on names the
  // workers that must not do it.
  uint64_t checks = 0;
};

struct ArrayRow {
  std::string head, output, dtype, sha256;
  uint64_t bytes = 0;
};

struct ReportRow {
  std::string id;  // digest of report.json
  uint64_t report_bytes = 0;
  std::string execution_sha256;
  uint64_t execution_bytes = 0;
  std::string receipt, run, label;
  std::vector<ArrayRow> arrays;
  int64_t create_ms = 0;
  std::string fingerprint;
};

struct ReceiptRow {
  std::string id, receipt_sha256;
  uint64_t receipt_bytes = 0;
  std::string report;
  uint64_t leaf_index = 0;
  std::string key_id;
  int64_t create_ms = 0;
};

struct RequestIdRow {
  std::string key, spec_sha256, resource;
  int64_t create_ms = 0;
};

enum class EventKind : uint32_t { kState = 1, kNote = 2, kCandidate = 3 };

struct EventRow {
  std::string run;
  uint64_t revision = 0;
  int64_t time_ms = 0;
  EventKind kind = EventKind::kNote;
  std::string reason, message;
};

// A result that differs from the accepted one.
struct EvidenceRow {
  uint64_t unit = 0;
  std::string lease, worker, result_json;
  int64_t time_ms = 0;
};

struct LogNodeRow {
  uint32_t level = 0;
  uint64_t index = 0;
  std::string hash;  // 32 bytes
};

struct MetaRow {
  uint64_t epoch = 0;          // coordinator starts
  uint64_t next_serial = 1;    // of units and runs
  uint64_t next_revision = 1;  // of events
  uint64_t log_size = 0;
  std::string checkpoint;  // signed note of the log as it is
  std::string store_id;    // random, set when the store is made
  // How many of the serials and revisions given out belong to rows that were removed: with the rows
  // that are there they add up, so that a lost row is noticed.
  uint64_t removed_serials = 0, removed_revisions = 0;
};

template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, Fault>
void Fields(R& r, V&& v) {
  v(1, r.code);
  v(2, r.reason);
  v(3, r.message);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, SuiteRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.suite_token_sha256);
  v(3, r.schema);
  v(4, r.model);
  v(5, r.contexts);
  v(6, r.context_length);
  v(7, r.vocab_size);
  v(8, r.create_ms);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, ModelRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.manifest_json);
  v(3, r.facts_json);
  v(4, r.head);
  v(5, r.create_ms);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, HeadRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.file_sha256);
  v(3, r.file_bytes);
  v(4, r.tensor);
  v(5, r.dtype);
  v(6, r.vocab);
  v(7, r.hidden);
  v(8, r.create_ms);
  v(9, r.max_abs);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, CaptureRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.model);
  v(3, r.suite);
  v(4, r.cut_point);
  v(5, r.identity_json);
  v(6, r.origin);
  v(7, r.declared_json);
  v(8, r.contexts_total);
  v(9, r.create_ms);
  v(10, r.manifest_json);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, CaptureFileRow>
void Fields(R& r, V&& v) {
  v(1, r.capture);
  v(2, r.generation);
  v(3, r.index);
  v(4, r.sha256);
  v(5, r.bytes);
  v(6, r.rows);
  v(7, r.width);
  v(8, r.max_abs);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, OperandRow>
void Fields(R& r, V&& v) {
  v(1, r.model);
  v(2, r.capture);
  v(3, r.head);
  v(4, r.given_capture);
  v(5, r.given_head);
  v(6, r.bias_file);
  v(7, r.bias_bytes);
  v(8, r.bias_tensor);
  v(9, r.bias);
  v(10, r.head_origin_json);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, CandidateRow>
void Fields(R& r, V&& v) {
  v(1, r.label);
  v(2, r.source);
  v(3, r.state);
  v(4, r.error);
  v(5, r.report);
  v(6, r.reused);
  v(7, r.fingerprint);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, RunRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.principal);
  v(3, r.request_id);
  v(4, r.spec_sha256);
  v(5, r.suite);
  v(6, r.filter);
  v(7, r.contexts);
  v(8, r.sentinels);
  v(9, r.context_length);
  v(10, r.max_token);
  v(11, r.reference);
  v(12, r.reference_label);
  v(13, r.candidates);
  v(14, r.heads);
  v(15, r.numeric_policy);
  v(16, r.unit_contexts);
  v(17, r.row_tile);
  v(18, r.fresh);
  v(19, r.valid_vocab);
  v(20, r.softcap);
  v(21, r.allow_infinite);
  v(22, r.repeat_sentinels);
  v(23, r.state);
  v(24, r.error);
  v(25, r.replay_identity_json);
  v(26, r.capture_identity_json);
  v(27, r.create_ms);
  v(28, r.end_ms);
  v(29, r.seal_ms);
  v(30, r.revision);
  v(31, r.replay_planned);
  v(32, r.noise_planned);
  v(33, r.serial);
  v(34, r.backend);
  v(35, r.settled_backend);
  v(36, r.logit_scale);
  v(37, r.score_from);
  v(38, r.vocab_chunk);
  v(39, r.limit);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, AttemptRow>
void Fields(R& r, V&& v) {
  v(1, r.lease);
  v(2, r.worker);
  v(3, r.incarnation);
  v(4, r.build);
  v(5, r.tp);
  v(6, r.host_json);
  v(7, r.identity_sha256);
  v(8, r.start_ms);
  v(9, r.end_ms);
  v(10, r.outcome);
  v(11, r.counters_json);
  v(12, r.wall_ms);
  v(13, r.rank_attempts);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, UnitRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.kind);
  v(3, r.run);
  v(4, r.model);
  v(5, r.capture);
  v(6, r.contexts);
  v(7, r.state);
  v(8, r.failures);
  v(9, r.attempt);
  v(10, r.lease);
  v(11, r.attempts);
  v(12, r.result_json);
  v(13, r.result_sha256);
  v(14, r.error);
  v(15, r.candidates);
  v(16, r.failed_on);
  v(17, r.checks);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, ArrayRow>
void Fields(R& r, V&& v) {
  v(1, r.head);
  v(2, r.output);
  v(3, r.dtype);
  v(4, r.sha256);
  v(5, r.bytes);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, ReportRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.report_bytes);
  v(3, r.execution_sha256);
  v(4, r.execution_bytes);
  v(5, r.receipt);
  v(6, r.run);
  v(7, r.label);
  v(8, r.arrays);
  v(9, r.create_ms);
  v(10, r.fingerprint);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, ReceiptRow>
void Fields(R& r, V&& v) {
  v(1, r.id);
  v(2, r.receipt_sha256);
  v(3, r.receipt_bytes);
  v(4, r.report);
  v(5, r.leaf_index);
  v(6, r.key_id);
  v(7, r.create_ms);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, RequestIdRow>
void Fields(R& r, V&& v) {
  v(1, r.key);
  v(2, r.spec_sha256);
  v(3, r.resource);
  v(4, r.create_ms);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, EventRow>
void Fields(R& r, V&& v) {
  v(1, r.run);
  v(2, r.revision);
  v(3, r.time_ms);
  v(4, r.kind);
  v(5, r.reason);
  v(6, r.message);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, EvidenceRow>
void Fields(R& r, V&& v) {
  v(1, r.unit);
  v(2, r.lease);
  v(3, r.worker);
  v(4, r.result_json);
  v(5, r.time_ms);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, LogNodeRow>
void Fields(R& r, V&& v) {
  v(1, r.level);
  v(2, r.index);
  v(3, r.hash);
}
template <class R, class V>
requires std::is_same_v<std::remove_const_t<R>, MetaRow>
void Fields(R& r, V&& v) {
  v(1, r.epoch);
  v(2, r.next_serial);
  v(3, r.next_revision);
  v(4, r.log_size);
  v(5, r.checkpoint);
  v(6, r.store_id);
  v(7, r.removed_serials);
  v(8, r.removed_revisions);
}

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_ROWS_H_
