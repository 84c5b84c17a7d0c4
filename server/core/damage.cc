// Blobs whose stored bytes have changed: what they held counts as never made.

#include <algorithm>
#include <set>

#include "server/core/steps.h"

namespace assay::core {
namespace {

// Replay units that could be given out wait until their inputs are there again.
void BlockReplays(Txn& t) {
  for (const uint64_t id : std::set<uint64_t>(t.s.ready_units)) {
    UnitRow unit = t.s.units.at(id);
    if (unit.kind != UnitKind::kReplay) continue;
    unit.state = UnitState::kBlocked;
    t.Put(unit);
  }
}

// Captures that cannot be made again lack a file now.
std::set<std::string> ForgetFiles(Txn& t, const std::set<std::string>& damaged) {
  std::vector<CaptureFileRow> lost;
  for (const auto& [capture, generations] : t.s.files) {
    for (const FileMap& files : generations) {
      for (const auto& [index, file] : files) {
        if (damaged.count(file.sha256) != 0) lost.push_back(file);
      }
    }
  }
  std::set<std::string> imported;
  for (CaptureFileRow& file : lost) {
    file.sha256.clear();
    if (t.s.captures.at(file.capture).origin != "native") imported.insert(file.capture);
    t.Put(file);
  }
  return imported;
}

// Heads that no model can give again.
std::set<std::string> ForgetHeads(Txn& t, const std::set<std::string>& damaged) {
  std::set<std::string> lost;
  for (const auto& [id, head] : t.s.heads) {
    if (damaged.count(head.file_sha256) != 0) lost.insert(id);
  }
  std::vector<ModelRow> models;
  for (const auto& [id, model] : t.s.models) {
    if (lost.count(model.head) != 0) models.push_back(model);
  }
  for (ModelRow& model : models) {
    model.head.clear();
    t.Put(model);
  }
  return lost;
}

}  // namespace

void ForgetBlobs(Txn& t, const std::vector<std::string>& sha256s) {
  if (sha256s.empty()) return;
  const std::set<std::string> damaged(sha256s.begin(), sha256s.end());
  const std::set<std::string> captures = ForgetFiles(t, damaged);
  const std::set<std::string> heads = ForgetHeads(t, damaged);
  BlockReplays(t);
  const auto gone = [&](const OperandRow& op) {
    return captures.count(op.given_capture) != 0 || heads.count(op.given_head) != 0 ||
           damaged.count(op.bias_file) != 0;
  };
  const Fault fault{
      "DATA_LOSS", "BLOB_CORRUPT",
      "the stored bytes of an imported capture or head have changed on the "
      "coordinator's disk and were dropped; run the same command again, which uploads "
      "them anew, and check that disk"};
  for (const std::string& id : std::set<std::string>(t.s.active_runs)) {
    RunRow run = t.s.runs.at(id);
    if (run.state == RunState::kSealing) continue;
    t.Event(&run, EventKind::kNote, "BLOB_DROPPED",
            "stored bytes have changed on the coordinator's disk; what they held is made again");
    t.Put(run);
    if (gone(run.reference)) {
      FailRun(t, &run, fault);
      continue;
    }
    for (size_t i = 0; i < run.candidates.size(); ++i) {
      run = t.s.runs.at(id);
      if (IsTerminal(run.state) || !gone(run.candidates[i].source)) continue;
      FailCandidate(t, &run, i, fault);
    }
  }
  ReconcileAll(t);
}

}  // namespace assay::core
