// Captures that nobody needs any more.

#include <set>

#include "server/core/steps.h"

namespace assay {
namespace {

void AddCaptures(const OperandRow& op, std::set<std::string>* out) {
  if (!op.capture.empty()) out->insert(op.capture);
  if (!op.given_capture.empty()) out->insert(op.given_capture);
}

std::set<std::string> NeededCaptures(const State& s, bool sealed) {
  std::set<std::string> needed;
  for (const auto& [id, run] : s.runs) {
    const bool active = !IsTerminal(run.state);
    bool reference = active;
    for (const CandidateRow& candidate : run.candidates) {
      const bool named = !sealed && candidate.state == CandidateState::kSealed;
      if (active || named) AddCaptures(candidate.source, &needed);
      reference = reference || named;
    }
    if (reference) AddCaptures(run.reference, &needed);
  }
  return needed;
}

}  // namespace

std::vector<UnusedCapture> UnusedCaptures(const State& state, const std::vector<std::string>& among,
                                          bool sealed) {
  const std::set<std::string> needed = NeededCaptures(state, sealed);
  const std::set<std::string> asked(among.begin(), among.end());
  std::vector<UnusedCapture> out;
  for (const auto& [id, generations] : state.files) {
    if (needed.count(id) != 0 || (!asked.empty() && asked.count(id) == 0)) continue;
    UnusedCapture unused;
    unused.id = id;
    for (const FileMap& files : generations) {
      for (const auto& [index, file] : files) {
        ++unused.files;
        unused.bytes += file.bytes;
      }
    }
    if (unused.files > 0) out.push_back(unused);
  }
  return out;
}

void core::DoDropCaptures(Txn& t, const DropCaptures& command) {
  if (command.captures.empty()) return;
  for (const UnusedCapture& unused : UnusedCaptures(t.s, command.captures, command.sealed)) {
    std::vector<CaptureFileRow> rows;
    for (const FileMap& files : t.s.files.at(unused.id)) {
      for (const auto& [index, file] : files) rows.push_back(file);
    }
    for (CaptureFileRow& row : rows) {
      row.sha256.clear();
      t.Put(row);
    }
  }
}

}  // namespace assay
