// One replay backend for all units of a run.
//
// Workers with equal kernels still may take different backends: the bf16 kernels flush subnormals,
// so a unit that holds values of 2^60 or more is computed by cpu-f32 (design 4). The first accepted
// result settles the run's backend; a unit that needs cpu-f32 moves the whole run to it, and what
// was computed otherwise is computed again.

#include <string>

#include "server/core/steps.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::core {
namespace {

constexpr char kFallbackBackend[] = "cpu-f32";
constexpr double kSafeBound = 0x1p60;  // kBf16OperandBound of worker/replay

// Done replay units of `run` are to be done again, with the backend settled now.
void ReopenReplays(Txn& t, const RunRow& run) {
  const auto it = t.s.units_of_run.find(run.id);
  if (it == t.s.units_of_run.end()) return;
  for (const uint64_t id : std::set<uint64_t>(it->second)) {
    UnitRow unit = t.s.units.at(id);
    if (unit.checks != 0) {  // of a result that does not count any more
      CloseLease(t, unit.lease, "cancelled", UnitState::kDropped);
      unit = t.s.units.at(id);
      unit.state = UnitState::kDropped;
      t.Put(unit);
      continue;
    }
    if (!IsReplay(unit.kind) || unit.state != UnitState::kDone) continue;
    unit.state = UnitState::kReady;
    unit.result_json.clear();
    unit.result_sha256.clear();
    t.Put(unit);
    t.effects.wake_workers = true;
  }
}

// What is beyond the safe range, as text; "" for nothing that is known.
std::string BeyondSafeRange(const State& s, const RunRow& run, const OperandRow& op) {
  if (const auto head = s.heads.find(op.head);
      head != s.heads.end() && head->second.max_abs >= kSafeBound) {
    return "heads/" + op.head;
  }
  const auto files = s.files.find(op.capture);
  if (files == s.files.end()) return "";
  for (const int64_t index : run.contexts) {
    const auto file = files->second[0].find(index);
    if (file == files->second[0].end() || file->second.max_abs < kSafeBound) continue;
    return "captures/" + op.capture + ", context " + std::to_string(index) + ",";
  }
  return "";
}

}  // namespace

bool WorkerHasBackend(const WorkerState& worker, const std::string& backend) {
  if (backend.empty() || backend == kFallbackBackend) return true;
  const auto identity = ParseJson(worker.replay_identity, "replay identity");
  // One that does not say what it has is believed to have it; the unit will tell.
  if (!identity.ok() || !identity->is_object() || !identity->contains("backend")) return true;
  if (backend == "cuda-bf16") return identity->contains("cuda");
  const auto digest = identity->find("self_test_sha256_bf16");
  return digest == identity->end() ||
         (digest->is_string() && !digest->get_ref<const std::string&>().empty());
}

std::string BackendsWithout(const State& s, const std::string& backend) {
  if (backend.empty()) return "";
  std::set<std::string> found;
  for (const auto& [id, w] : s.workers) {
    if (!w.live || w.replay_identity.empty()) continue;
    if (WorkerHasBackend(w, backend)) return "";
    for (const char* other : {"cpu-bf16", "cpu-f32", "cuda-bf16"}) {
      if (WorkerHasBackend(w, other)) found.insert(other);
    }
  }
  std::string text;
  for (const std::string& other : found) text += (text.empty() ? "" : ", ") + other;
  return text;
}

void SettleByMaxima(Txn& t, RunRow* run) {
  if (!run->backend.empty() || run->settled_backend == kFallbackBackend) return;
  for (const OperandRow* op : LiveOperands(run)) {
    const std::string what = BeyondSafeRange(t.s, *run, *op);
    if (what.empty()) continue;
    const bool begun = !run->settled_backend.empty();
    run->settled_backend = kFallbackBackend;
    if (begun) ReopenReplays(t, *run);
    t.Event(run, EventKind::kNote, begun ? "BACKEND_MOVED" : "BACKEND_CHOSEN",
            what +
                " holds values of 2^60 or more, beyond what the bf16 kernels compute safely; "
                "all replays of this run use " +
                kFallbackBackend);
    return;
  }
}

std::string UnitBackend(const RunRow& run) {
  if (!run.backend.empty()) return run.backend;
  return run.settled_backend == kFallbackBackend ? kFallbackBackend : "auto";
}

absl::Status SettleBackend(Txn& t, const UnitRow& unit, const Json& result) {
  const JsonFields fields(result, "replay result");
  ASSAY_ASSIGN_OR_RETURN(const std::string backend, fields.String("backend"));
  if (backend == t.s.runs.at(unit.run).settled_backend) return absl::OkStatus();
  RunRow run = t.s.runs.at(unit.run);
  const std::string wanted = run.settled_backend.empty() ? run.backend : run.settled_backend;
  const bool moves =
      run.backend.empty() && backend == kFallbackBackend && !run.settled_backend.empty();
  if (!wanted.empty() && backend != wanted && !moves) {
    return PreconditionError("BACKEND_DIFFERS", "unit " + std::to_string(unit.id) + " used the " +
                                                    backend + " backend, this run's is " + wanted +
                                                    "; it is done again");
  }
  run.settled_backend = backend;
  if (moves) {
    ReopenReplays(t, run);
    t.Event(&run, EventKind::kNote, "BACKEND_MOVED",
            "unit " + std::to_string(unit.id) + " holds values beyond the safe range of " + wanted +
                "; all replays of this run use " + backend);
  }
  t.Put(run);
  return absl::OkStatus();
}

}  // namespace assay::core
