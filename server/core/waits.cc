// Waits that end: work that nobody may take, runs that cannot begin, a disk that stays low.

#include <algorithm>

#include "server/core/steps.h"

namespace assay::core {
namespace {

// The wait after which a unit that nobody may take fails, and with what.
Fault StuckFault(const State& s, const UnitRow& unit, int64_t* wait_ms) {
  *wait_ms = s.options.worker_wait_ms;
  bool live = false, identity = false;
  for (const auto& [id, w] : s.workers) {
    if (!w.live || w.draining || w.replay_identity.empty()) continue;
    live = true;
    identity = identity || HasIdentity(s, w, unit);
  }
  if (!live) {
    return {"UNAVAILABLE", "WORKERS_UNAVAILABLE",
            "no worker is connected; start assay-worker with --coordinator pointing here"};
  }
  if (!identity) {
    return {"UNAVAILABLE", "KERNEL_UNAVAILABLE",
            "no connected worker has the kernels that this work was begun with; bring such a "
            "worker back or start a "
            "fresh run"};
  }
  *wait_ms = s.options.model_wait_ms;
  if (unit.checks != 0) {
    *wait_ms = s.options.worker_wait_ms;
    return {"UNAVAILABLE", "WORKERS_UNAVAILABLE", "no other worker is connected that could"};
  }
  return {"UNAVAILABLE", "MODEL_UNAVAILABLE",
          "no connected worker has models/" + unit.model +
              "; put its files under a worker's --model-root or upload them"};
}

// Fails a run that waits for a backend that no connected worker has. True while it waits or fails.
bool EndWithoutBackend(Txn& t, RunRow* run) {
  if (run->replay_planned || run->state == RunState::kSealing) return false;
  const std::string others = BackendsWithout(t.s, run->backend);
  if (others.empty()) return false;
  const int64_t since = t.s.run_stuck_since.emplace(run->id, t.now.mono_ms).first->second;
  if (t.now.mono_ms - since < t.s.options.model_wait_ms) return true;
  t.s.run_stuck_since.erase(run->id);
  FailRun(t, run,
          {"FAILED_PRECONDITION", "BACKEND_UNAVAILABLE",
           "no connected worker has the replay backend " + run->backend + ", only " + others +
               "; use one of them or auto, or connect such a worker and start the run again"});
  return true;
}

}  // namespace

void EndStuckUnits(Txn& t) {
  // Units of one queue may be taken by the same workers: one of them speaks for all.
  std::vector<std::pair<uint64_t, Fault>> over;
  for (auto& [of, queues] : t.s.ready.classes()) {
    for (auto& [model, queue] : queues.by_model) {
      ++t.s.counters.rows_visited;
      const UnitRow& unit = t.s.units.at(*queue.units.begin());
      const bool taken = std::any_of(t.s.workers.begin(), t.s.workers.end(),
                                     [&](const auto& w) { return MayTake(t.s, w.second, unit); });
      if (taken) {
        queue.stuck.clear();
        continue;
      }
      const uint64_t last = *queue.units.rbegin();
      if (queue.stuck.empty() || queue.stuck.back().second < last)
        queue.stuck.emplace_back(t.now.mono_ms, last);
      int64_t wait_ms = 0;
      const Fault fault = StuckFault(t.s, unit, &wait_ms);
      while (!queue.stuck.empty() && t.now.mono_ms - queue.stuck.front().first >= wait_ms) {
        for (const uint64_t id : queue.units) {
          if (id <= queue.stuck.front().second) over.emplace_back(id, fault);
        }
        queue.stuck.pop_front();
      }
    }
  }
  for (const auto& [id, fault] : over) {
    const UnitRow unit = t.s.units.at(id);
    if (unit.state == UnitState::kReady) PoisonUnit(t, unit, fault);
  }
}

// Runs that cannot even choose a capture: no worker has the model.
void EndStuckRuns(Txn& t) {
  for (const std::string& id : std::set<std::string>(t.s.unsettled_runs)) {
    ++t.s.counters.rows_visited;
    RunRow run = t.s.runs.at(id);
    const OperandRow* waiting = nullptr;
    size_t index = 0;
    for (size_t i = 0; i < run.candidates.size(); ++i) {
      const CandidateRow& c = run.candidates[i];
      if (c.state == CandidateState::kWaiting && c.source.capture.empty() &&
          !c.source.head.empty()) {
        waiting = &c.source;
        index = i;
      }
    }
    if (EndWithoutBackend(t, &run)) continue;
    const OperandRow& ref = run.reference;
    const bool reference = ref.capture.empty() && !ref.head.empty() && !LiveOperands(&run).empty();
    if (run.state == RunState::kSealing || (waiting == nullptr && !reference)) {
      t.s.run_stuck_since.erase(id);
      continue;
    }
    const int64_t since = t.s.run_stuck_since.emplace(id, t.now.mono_ms).first->second;
    const bool live = std::any_of(t.s.workers.begin(), t.s.workers.end(), [](const auto& w) {
      return w.second.live && !w.second.draining && !w.second.replay_identity.empty();
    });
    if (t.now.mono_ms - since < (live ? t.s.options.model_wait_ms : t.s.options.worker_wait_ms))
      continue;
    const Fault fault =
        live ? Fault{"UNAVAILABLE", "MODEL_UNAVAILABLE",
                     "no connected worker can capture models/" +
                         (reference ? ref.model : waiting->model) +
                         "; put its files under a worker's --model-root or upload them"}
             : Fault{"UNAVAILABLE", "WORKERS_UNAVAILABLE",
                     "no worker is connected; start assay-worker with --coordinator pointing here"};
    t.s.run_stuck_since.erase(id);
    if (reference) {
      FailRun(t, &run, fault);
    } else {
      FailCandidate(t, &run, index, fault);
      Reconcile(t, id);
    }
  }
}

// Nothing is given out while the disk is low: every active run says so once, and fails by name when
// nobody makes room.
void WaitForDisk(Txn& t) {
  if (!t.s.disk_low_since) t.s.disk_low_since = t.now.mono_ms;
  const bool over = t.now.mono_ms - *t.s.disk_low_since >= t.s.options.disk_wait_ms;
  for (const std::string& id : std::set<std::string>(t.s.active_runs)) {
    RunRow run = t.s.runs.at(id);
    if (run.state == RunState::kSealing) continue;
    if (over) {
      FailRun(t, &run,
              {"RESOURCE_EXHAUSTED", "DISK_LOW",
               "the coordinator's disk stayed nearly full; make room there and start the run again "
               "(finished captures are kept)"});
      continue;
    }
    const uint64_t before = run.revision;
    t.NoteOnce(&run, "DISK_LOW",
               "the coordinator's disk is nearly full: no work is given out until there is room; "
               "delete something there, or give --min-free-bytes a smaller value");
    if (run.revision != before) t.Put(run);
  }
}

}  // namespace assay::core
