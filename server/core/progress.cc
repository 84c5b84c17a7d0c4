#include "server/core/progress.h"

#include <algorithm>
#include <set>

#include "server/core/steps.h"

namespace assay {
namespace {

std::set<uint64_t> UnitsFor(const State& state, const RunRow& run) {
  std::set<uint64_t> ids;
  const auto add = [&](const auto& map, const std::string& key) {
    if (const auto it = map.find(key); it != map.end())
      ids.insert(it->second.begin(), it->second.end());
  };
  add(state.units_of_run, run.id);
  std::vector<const OperandRow*> operands = {&run.reference};
  for (const CandidateRow& candidate : run.candidates) operands.push_back(&candidate.source);
  for (const OperandRow* op : operands) {
    add(state.units_of_model, op->model);
    add(state.units_of_capture, op->capture);
  }
  return ids;
}

// Comparing repeats is shown as part of comparing.
std::string PhaseOf(UnitKind kind) {
  return std::string(UnitKindName(kind == UnitKind::kNoise ? UnitKind::kReplay : kind));
}

struct Phase {
  PhaseProgress progress;
  int64_t first_start_ms = 0;
};

void AddUnit(const State& state, const UnitRow& unit, int64_t created_ms, Phase* phase) {
  if (unit.state == UnitState::kDropped) return;
  const auto total = static_cast<int64_t>(unit.contexts.size());
  int64_t done = unit.state == UnitState::kDone ? total : 0;
  if (const auto it = state.leases.find(unit.lease);
      unit.state == UnitState::kLeased && it != state.leases.end()) {
    // Ranks count contexts or positions; only the share matters here.
    if (it->second.total > 0)
      done = total * std::min(it->second.done, it->second.total) / it->second.total;
  }
  PhaseProgress& p = phase->progress;
  ++p.units_total;
  p.units_done += unit.state == UnitState::kDone;
  p.contexts_total += total;
  p.contexts_done += done;
  for (const AttemptRow& attempt : unit.attempts) {
    if (attempt.start_ms < created_ms) continue;
    if (phase->first_start_ms == 0 || attempt.start_ms < phase->first_start_ms)
      phase->first_start_ms = attempt.start_ms;
  }
}

}  // namespace

std::vector<PhaseProgress> ProgressOf(const State& state, const RunRow& run, const Now& now) {
  std::map<std::string, Phase> phases;
  for (const uint64_t id : UnitsFor(state, run)) {
    const UnitRow& unit = state.units.at(id);
    // Work finished before this run began is not its progress.
    if (unit.state == UnitState::kDone && !unit.attempts.empty() &&
        unit.attempts.back().end_ms < run.create_ms) {
      continue;
    }
    AddUnit(state, unit, run.create_ms, &phases[PhaseOf(unit.kind)]);
  }
  std::vector<PhaseProgress> out;
  for (const char* name : {"prepare", "capture", "repeat", "replay"}) {
    const auto it = phases.find(name);
    if (it == phases.end() || it->second.progress.units_total == 0) continue;
    PhaseProgress p = it->second.progress;
    p.phase = name;
    p.tokens_done = p.contexts_done * run.context_length;
    p.tokens_total = p.contexts_total * run.context_length;
    const int64_t spent = now.unix_ms - it->second.first_start_ms;
    if (it->second.first_start_ms != 0 && spent > 0 && p.tokens_done > 0) {
      p.tokens_per_second =
          1000.0 * static_cast<double>(p.tokens_done) / static_cast<double>(spent);
      p.eta_ms = static_cast<int64_t>(1000.0 * static_cast<double>(p.tokens_total - p.tokens_done) /
                                      p.tokens_per_second);
    }
    out.push_back(p);
  }
  if (run.state >= RunState::kSealing) {
    PhaseProgress seal;
    seal.phase = "seal";
    for (const CandidateRow& candidate : run.candidates) {
      seal.units_total += candidate.state == CandidateState::kSealed ||
                          candidate.state == CandidateState::kComputed;
      seal.units_done += candidate.state == CandidateState::kSealed;
    }
    if (seal.units_total > 0) out.push_back(seal);
  }
  return out;
}

}  // namespace assay
