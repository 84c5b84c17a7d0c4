#include "server/engine/consistency.h"

#include <algorithm>
#include <map>

#include "server/core/apply.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/merkle.h"

namespace assay {
namespace {

std::string Text(const DigestBytes& hash) { return std::string(hash.begin(), hash.end()); }

class Checker {
 public:
  explicit Checker(const StoredRows& rows) : rows_(rows), s_(rows.state) {}

  std::vector<Damage> Run() {
    Counts();
    Names();
    Receipts();
    Log();
    return std::move(out_);
  }

 private:
  void Lost(const std::string& what, Repair repair) { out_.push_back({what, repair, true, ""}); }

  // Every serial is that of a run or unit, every revision that of an event.
  void Counts() {
    uint64_t last = 0;
    for (const auto& [serial, run] : s_.run_order) last = std::max(last, serial);
    if (!s_.units.empty()) last = std::max(last, s_.units.rbegin()->first);
    const MetaRow& meta = s_.meta;
    if (meta.next_serial <= last || meta.next_revision <= rows_.last_revision ||
        (meta.epoch == 0 && !s_.runs.empty())) {
      Lost("the row with the store's counters is missing or older than others", Repair::kMeta);
      return;
    }
    const auto compare = [&](uint64_t given, uint64_t there, const char* what) {
      if (given == there) return;
      Lost(std::to_string(there) + " " + what + " are there, " + std::to_string(given) +
               " were made and not removed",
           Repair::kNone);
    };
    compare(meta.next_serial - 1 - meta.removed_serials, s_.runs.size() + s_.units.size(),
            "runs and units");
    compare(meta.next_revision - 1 - meta.removed_revisions, rows_.events, "events");
  }

  void Need(bool there, const std::string& who, const std::string& what) {
    if (!there) Lost(who + " names " + what + ", which is missing", Repair::kNone);
  }

  void Names() {
    for (const auto& [id, run] : s_.runs) {
      const std::string who = "runs/" + id;
      Need(s_.suites.count(run.suite) != 0, who, "suites/" + run.suite);
      if (s_.requests.count(RequestKey(run)) == 0)
        Lost("the row with the request id of " + who + " is missing", Repair::kRequests);
      Operand(run.reference, who);
      for (const CandidateRow& candidate : run.candidates) {
        Operand(candidate.source, who);
        if (candidate.state == CandidateState::kSealed)
          Need(s_.reports.count(candidate.report) != 0, who, "reports/" + candidate.report);
      }
    }
    for (const auto& [id, unit] : s_.units) {
      const std::string who = "unit " + std::to_string(id);
      if (!unit.run.empty()) Need(s_.runs.count(unit.run) != 0, who, "runs/" + unit.run);
      if (!unit.model.empty()) Need(s_.models.count(unit.model) != 0, who, "models/" + unit.model);
      if (!unit.capture.empty())
        Need(s_.captures.count(unit.capture) != 0, who, "captures/" + unit.capture);
    }
    for (const auto& [id, files] : s_.files)
      Need(s_.captures.count(id) != 0, "a captured file", "captures/" + id);
  }

  void Operand(const OperandRow& op, const std::string& who) {
    if (!op.model.empty()) Need(s_.models.count(op.model) != 0, who, "models/" + op.model);
    if (!op.capture.empty())
      Need(s_.captures.count(op.capture) != 0, who, "captures/" + op.capture);
    if (!op.head.empty()) Need(s_.heads.count(op.head) != 0, who, "heads/" + op.head);
  }

  void Receipts() {
    std::set<uint64_t> leaves;
    for (const auto& [id, receipt] : s_.receipts) {
      leaves.insert(receipt.leaf_index);
      Need(s_.reports.count(receipt.report) != 0, "receipts/" + id, "reports/" + receipt.report);
    }
    for (const auto& [id, report] : s_.reports) {
      if (s_.receipts.count(report.receipt) == 0)
        Lost("the row of receipts/" + report.receipt + " is missing", Repair::kReceipts);
    }
    const uint64_t sealed = std::max<uint64_t>(s_.receipts.size(), s_.reports.size());
    if (s_.meta.log_size != sealed) {
      Lost("the log has " + std::to_string(s_.meta.log_size) + " leaves but " +
               std::to_string(sealed) + " reports are sealed",
           s_.meta.log_size < sealed ? Repair::kMeta : Repair::kNone);
    }
  }

  void Log() {
    const std::vector<LogNodeRow> made = NodesFromReceipts(s_);
    if (made.empty() && s_.meta.log_size != 0) return;  // receipts are missing: said already
    std::map<std::pair<uint32_t, uint64_t>, std::string> stored;
    for (const LogNodeRow& node : rows_.nodes) stored[{node.level, node.index}] = node.hash;
    MemoryLog log;
    LogAppend all;
    size_t wrong = 0;
    for (const LogNodeRow& node : made) {
      const auto it = stored.find({node.level, node.index});
      wrong += it == stored.end() || it->second != node.hash ? 1 : 0;
      DigestBytes hash{};
      std::copy(node.hash.begin(), node.hash.end(), hash.begin());
      all.nodes.push_back({node.level, node.index, hash});
    }
    if (wrong > 0) {
      Lost(std::to_string(wrong) + " of " + std::to_string(made.size()) +
               " nodes of the transparency log are missing or differ",
           Repair::kLogNodes);
    }
    all.new_size = s_.receipts.size();
    log.Apply(all);
    const auto signed_note = ParseCheckpoint(s_.meta.checkpoint);
    const auto root = LogRoot(log, log.size());
    if (s_.receipts.empty()) return;
    if (!signed_note.ok() || !root.ok() || signed_note->checkpoint.size != log.size() ||
        signed_note->checkpoint.root != *root) {
      Lost("the log's signed checkpoint is not that of its receipts", Repair::kMeta);
    }
  }

  const StoredRows& rows_;
  const State& s_;
  std::vector<Damage> out_;
};

void CheckDocument(const BlobStore& blobs, const std::string& sha256, uint64_t bytes,
                   const std::string& what, Repair repair, const std::string& report,
                   std::vector<Damage>* out) {
  const auto size = blobs.Size(sha256);
  if (size.ok() && *size == bytes) return;
  out->push_back({what + " (blob " + sha256 + ") is " +
                      (size.ok() ? "of another size than was sealed" : "missing"),
                  repair, true, report});
}

}  // namespace

void StoredRows::Absorb(const Row& row) {
  if (const auto* node = std::get_if<LogNodeRow>(&row)) nodes.push_back(*node);
  if (const auto* event = std::get_if<EventRow>(&row)) {
    ++events;
    last_revision = std::max(last_revision, event->revision);
  }
  state.Absorb(row);
}

std::vector<LogNodeRow> NodesFromReceipts(const State& state) {
  std::map<uint64_t, std::string> leaves;  // a receipt's id is its leaf hash
  for (const auto& [id, receipt] : state.receipts) leaves[receipt.leaf_index] = id;
  std::vector<LogNodeRow> out;
  if (leaves.size() != state.receipts.size() ||
      (!leaves.empty() && leaves.rbegin()->first + 1 != leaves.size())) {
    return out;
  }
  std::vector<DigestBytes> level;
  for (const auto& [index, id] : leaves) {
    if (!IsSha256Hex(id)) return out;
    DigestBytes hash{};
    for (size_t i = 0; i < hash.size(); ++i)
      hash[i] = static_cast<uint8_t>(std::stoi(id.substr(2 * i, 2), nullptr, 16));
    level.push_back(hash);
  }
  for (uint32_t height = 0; !level.empty(); ++height) {
    for (size_t i = 0; i < level.size(); ++i) out.push_back({height, i, Text(level[i])});
    std::vector<DigestBytes> parents;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      parents.push_back(LogNodeHash(level[i], level[i + 1]));
    level = std::move(parents);
  }
  return out;
}

std::vector<Damage> CheckRows(const StoredRows& rows) { return Checker(rows).Run(); }

std::vector<Damage> CheckSealed(const State& state, const BlobStore& blobs) {
  std::vector<Damage> out;
  for (const auto& [id, report] : state.reports) {
    const std::string name = "reports/" + id;
    CheckDocument(blobs, id, report.report_bytes, "report.json of " + name, Repair::kReport, id,
                  &out);
    CheckDocument(blobs, report.execution_sha256, report.execution_bytes,
                  "execution.json of " + name, Repair::kNone, id, &out);
    for (const ArrayRow& array : report.arrays) {
      CheckDocument(blobs, array.sha256, array.bytes,
                    "positions " + array.head + "/" + array.output + " of " + name, Repair::kReport,
                    id, &out);
    }
    if (const auto it = state.receipts.find(report.receipt); it != state.receipts.end()) {
      CheckDocument(blobs, it->second.receipt_sha256, it->second.receipt_bytes,
                    "receipt.json of " + name, Repair::kNone, id, &out);
    }
  }
  return out;
}

std::vector<std::string> MissingInputs(const State& state, const BlobStore& blobs) {
  std::set<std::string> missing;
  const auto look = [&](const std::string& sha256) {
    if (!sha256.empty() && !blobs.Has(sha256)) missing.insert(sha256);
  };
  for (const auto& [id, generations] : state.files) {
    for (const FileMap& files : generations) {
      for (const auto& [index, file] : files) look(file.sha256);
    }
  }
  const auto look_at_head = [&](const std::string& id) {
    if (const auto it = state.heads.find(id); it != state.heads.end()) look(it->second.file_sha256);
  };
  for (const auto& [id, model] : state.models) look_at_head(model.head);
  for (const std::string& id : state.active_runs) {
    const RunRow& run = state.runs.at(id);
    look_at_head(run.reference.given_head);
    for (const CandidateRow& candidate : run.candidates) look_at_head(candidate.source.given_head);
  }
  return {missing.begin(), missing.end()};
}

absl::Status RefusalOf(const std::vector<Damage>& damages, const std::string& dir) {
  const auto first = std::find_if(damages.begin(), damages.end(),
                                  [](const Damage& damage) { return damage.serious; });
  if (first == damages.end()) return absl::OkStatus();
  const auto count = std::count_if(damages.begin(), damages.end(),
                                   [](const Damage& damage) { return damage.serious; });
  return DataLossError("STORE_DAMAGED",
                       dir + ": " + first->what +
                           (count > 1 ? " (and " + std::to_string(count - 1) + " more)" : "") +
                           "; restore the data folder from a backup");
}

}  // namespace assay
