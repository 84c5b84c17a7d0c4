#include "tests/sim/oracle.h"

#include <algorithm>
#include <span>

#include "storage/base/json.h"
#include "storage/db/row.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/merkle.h"

namespace assay::sim {
namespace {

std::string Text(uint64_t v) { return std::to_string(v); }

std::string ResultDigest(const std::string& result_json) {
  const auto json = ParseJson(result_json, "result");
  return json.ok() ? Sha256Hex(CanonicalJson(*json).value_or("")) : "";
}

// RFC 6962 2.1, word for word: slow and independent of storage/seal.
DigestBytes NaiveRoot(std::span<const DigestBytes> leaves) {
  if (leaves.size() == 1) return leaves[0];
  size_t k = 1;
  while (k * 2 < leaves.size()) k *= 2;
  const DigestBytes left = NaiveRoot(leaves.first(k)), right = NaiveRoot(leaves.subspan(k));
  std::string text(1, '\x01');
  text.append(left.begin(), left.end());
  text.append(right.begin(), right.end());
  return Sha256Of(text);
}

DigestBytes FromHex(const std::string& hex) {
  DigestBytes out{};
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return out;
}

}  // namespace

void Oracle::Merge(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const RowKey key = KeyOf(row);
    acknowledged_[{static_cast<size_t>(key.family), key.key}] = EncodeRow(row);
    CheckRow(row);
  }
}

void Oracle::OnAcknowledged(const std::vector<const Command*>& commands,
                            const std::vector<Outcome>& outcomes) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    CheckOutcome(*commands[i], outcomes[i]);
    Merge(outcomes[i].rows);
  }
}

void Oracle::OnUnknown(const std::vector<Outcome>& outcomes) {
  has_unknown_ = true;
  unknown_.clear();
  for (const Outcome& outcome : outcomes)
    unknown_.insert(unknown_.end(), outcome.rows.begin(), outcome.rows.end());
}

void Oracle::OnOpened(const LogStore& store, uint64_t epoch) {
  const auto equal = [&] {
    size_t n = 0;
    for (size_t table = 0; table < static_cast<size_t>(kFamilies); ++table)
      n += store.table(table).size();
    if (n != acknowledged_.size()) return false;
    return std::all_of(acknowledged_.begin(), acknowledged_.end(), [&](const auto& row) {
      const auto& table = store.table(row.first.first);
      const auto it = table.find(row.first.second);
      return it != table.end() && it->second == row.second;
    });
  };
  bool good = equal();
  if (!good && has_unknown_) {
    Merge(unknown_);
    good = equal();
  }
  has_unknown_ = false;
  if (!good) {
    Fail(
        "acknowledged rows are lost or changed: the store opened with other rows than were "
        "acknowledged (" +
        Text(acknowledged_.size()) + " of them)");
  }
  if (epoch != meta_.epoch) Fail("the store's epoch is not the acknowledged one");
}

template <class R>
void Oracle::CheckUnchanged(const Row& row, const R& typed, const char* what) {
  const auto [it, added] = bytes_.emplace(std::string(what) + " " + typed, EncodeRow(row));
  if (!added && it->second != EncodeRow(row)) Fail(std::string(what) + " " + typed + " changed");
}

void Oracle::CheckOutcome(const Command& command, const Outcome& outcome) {
  if (std::holds_alternative<Start>(command.body)) {
    const auto* meta = outcome.rows.empty() ? nullptr : std::get_if<MetaRow>(&outcome.rows.back());
    if (meta == nullptr || meta->epoch <= epoch_) {
      Fail("a life began without a new epoch after " + Text(epoch_));
      return;
    }
    epoch_ = meta->epoch;
  }
  if (!outcome.status.ok() && !outcome.rows.empty()) Fail("a refused command changed rows");
  const auto* sync = std::get_if<Synchronize>(&command.body);
  const auto* answer = std::get_if<SyncAnswer>(&outcome.answer);
  if (sync == nullptr || answer == nullptr) return;
  if (answer->acks.size() != sync->results.size()) return Fail("a result without an answer");
  for (size_t i = 0; i < answer->acks.size(); ++i)
    CheckAck(*sync, sync->results[i], answer->acks[i], outcome);
  for (const Grant& grant : answer->start) {
    if (lease_.count(grant.lease) != 0) Fail("lease " + grant.lease + " was given out twice");
    if (grant.lease.rfind(Text(epoch_) + "-", 0) != 0)
      Fail("lease " + grant.lease + " is not of epoch " + Text(epoch_));
    lease_[grant.lease] = {sync->worker + "/" + sync->incarnation, grant.unit};
  }
}

void Oracle::CheckAck(const Synchronize& sync, const LeaseResult& result, const Ack& ack,
                      const Outcome& outcome) {
  if (!result.error.empty()) return;
  const auto lease = lease_.find(result.lease);
  if (lease == lease_.end()) return;
  const auto unit = units_.find(lease->second.second);
  if (unit == units_.end()) return;
  const UnitRow& row = unit->second;
  // Answers of one command are checked against the rows before it.
  const bool held = row.state == UnitState::kLeased && row.lease == result.lease &&
                    lease->second.first == sync.worker + "/" + sync.incarnation;
  late_ += ack.kind != AckKind::kAccepted && ack.kind != AckKind::kInvalid;
  if (ack.kind == AckKind::kAccepted && !held)
    Fail("unit " + Text(row.id) + ": a result of lease " + result.lease +
         ", which is not held, was accepted");
  const bool other =
      row.state == UnitState::kDone && row.result_sha256 != ResultDigest(result.result_json);
  if (other && ack.kind != AckKind::kDifferent && row.attempt > 0)
    Fail("unit " + Text(row.id) + ": a different late result was not called different");
  if (ack.kind != AckKind::kDifferent) return;
  const bool kept = std::any_of(outcome.rows.begin(), outcome.rows.end(), [&](const Row& r) {
    const auto* evidence = std::get_if<EvidenceRow>(&r);
    return evidence != nullptr && evidence->lease == result.lease &&
           evidence->result_json == result.result_json;
  });
  if (!kept) Fail("unit " + Text(row.id) + ": a different result was not kept as evidence");
}

void Oracle::CheckUnit(const UnitRow& unit) {
  const auto before = units_.find(unit.id);
  const std::string who = "unit " + Text(unit.id);
  if (before != units_.end()) {
    const UnitRow& old = before->second;
    if (unit.attempt < old.attempt || unit.attempts.size() < old.attempts.size())
      Fail(who + " lost attempts");
    if (old.state == UnitState::kDone && unit.state != UnitState::kDone)
      Fail(who + " was taken up again after its result was accepted");
  }
  if (unit.state == UnitState::kDone) {
    const auto [it, added] = accepted_.emplace(unit.id, unit.result_sha256);
    if (!added && it->second != unit.result_sha256) Fail(who + " has two accepted results");
    int done = 0;
    for (const AttemptRow& attempt : unit.attempts) {
      if (attempt.outcome != "done") continue;
      ++done;
      if (added && attempt.lease.rfind(Text(epoch_) + "-", 0) != 0)
        Fail(who + ": the accepted result is of lease " + attempt.lease + ", not of epoch " +
             Text(epoch_));
    }
    if (done != 1) Fail(who + " is done by " + Text(static_cast<uint64_t>(done)) + " attempts");
  }
  units_[unit.id] = unit;
}

void Oracle::CheckRun(const RunRow& run) {
  const auto before = runs_.find(run.id);
  const std::string who = "run " + run.id;
  if (before != runs_.end()) {
    if (IsTerminal(before->second.state) && run.state != before->second.state)
      Fail(who + " left its end");
    if (run.revision < before->second.revision) Fail(who + ": the revision went back");
  }
  if (run.state == RunState::kFailed && run.error.empty()) Fail(who + " failed without a reason");
  bool any = false;
  for (const CandidateRow& c : run.candidates) {
    if (c.state == CandidateState::kFailed && c.error.empty())
      Fail(who + ": candidate " + c.label + " failed without a reason");
    if (c.state != CandidateState::kSealed) continue;
    any = true;
    const auto [it, added] = sealed_.emplace(who + " " + c.label, c.report);
    if (!added && it->second != c.report) Fail(who + ": a sealed candidate's report changed");
    if (bytes_.count("report " + c.report) == 0) Fail(who + ": a sealed report has no row");
  }
  if (run.state == RunState::kSucceeded && !any) Fail(who + " succeeded with nothing sealed");
  runs_[run.id] = run;
}

void Oracle::CheckMeta(const MetaRow& meta) {
  if (meta.epoch < meta_.epoch || meta.next_serial < meta_.next_serial ||
      meta.next_revision < meta_.next_revision || meta.log_size < meta_.log_size) {
    Fail("a counter of the store went back");
  }
  if (meta.log_size != receipts_.size())
    Fail("the log has " + Text(meta.log_size) + " leaves and " + Text(receipts_.size()) +
         " receipts");
  if (!meta.checkpoint.empty()) checkpoints_.insert(meta.checkpoint);
  meta_ = meta;
}

// Nothing is sealed while two workers differ about a replay of the run.
void Oracle::CheckDisputes(const std::string& run) {
  for (const auto& [id, check] : units_) {
    if (check.checks == 0 || check.run != run) continue;
    const std::string who = "unit " + Text(check.checks);
    if (check.state < UnitState::kDone) Fail(who + ": sealed while another worker does it again");
    if (check.state != UnitState::kDone) continue;
    const std::string& accepted = units_.at(check.checks).result_sha256;
    if (check.result_sha256 == accepted) continue;
    const bool confirmed = std::any_of(units_.begin(), units_.end(), [&](const auto& other) {
      return other.second.checks == check.checks && other.second.state == UnitState::kDone &&
             other.second.result_sha256 == accepted;
    });
    if (!confirmed) Fail(who + ": sealed although workers differ about it");
  }
}

void Oracle::CheckRow(const Row& row) {
  if (const auto* unit = std::get_if<UnitRow>(&row)) CheckUnit(*unit);
  if (const auto* run = std::get_if<RunRow>(&row)) CheckRun(*run);
  if (const auto* meta = std::get_if<MetaRow>(&row)) CheckMeta(*meta);
  if (const auto* report = std::get_if<ReportRow>(&row)) {
    CheckUnchanged(row, report->id, "report");
    if (bytes_.count("bytes " + report->id) == 0) Fail("report " + report->id + " has no bytes");
  }
  if (const auto* receipt = std::get_if<ReceiptRow>(&row)) {
    CheckUnchanged(row, receipt->id, "receipt");
    if (bytes_.count("bytes " + receipt->receipt_sha256) == 0)
      Fail("receipt " + receipt->id + " has no bytes");
    receipts_[receipt->id] = *receipt;
    const auto [it, added] = leaves_.emplace(receipt->leaf_index, receipt->id);
    if (!added && it->second != receipt->id) Fail("a leaf of the log was written twice");
  }
  if (const auto* node = std::get_if<LogNodeRow>(&row))
    CheckUnchanged(row, Text(node->level) + "/" + Text(node->index), "log node");
  if (const auto* event = std::get_if<EventRow>(&row); event != nullptr) {
    CheckUnchanged(row, event->run + "/" + Text(event->revision), "event");
    if (event->reason != "SEALED") return;
    const std::string what = "sealed " + event->run + ": " + event->message;
    CheckDisputes(event->run);
    if (!bytes_.emplace(what, "").second) Fail("a candidate was sealed twice: " + event->message);
  }
}

void Oracle::OnRunSeen(const std::string& run, const RunRow* row, bool known_before) {
  if (row == nullptr) {
    if (known_before) Fail("acknowledged run " + run + " is not there");
    return;
  }
  uint64_t& seen = seen_revision_[run];
  if (row->revision < seen) Fail("run " + run + ": a client saw its revision go back");
  seen = row->revision;
}

void Oracle::OnSealBuilt(const SealDone& done, const std::string& report,
                         const std::string& receipt) {
  const auto [it, added] = built_.emplace(done.run + "/" + Text(done.candidate), done.report.id);
  if (!added && it->second != done.report.id)
    Fail("run " + done.run + ": sealing again gave another report");
  bytes_["bytes " + done.report.id] = report;
  bytes_["bytes " + done.receipt.receipt_sha256] = receipt;
}

void Oracle::CheckLog() {
  std::vector<DigestBytes> leaves;
  for (const auto& [index, id] : leaves_) {
    if (index != leaves.size()) return Fail("the log has a gap at leaf " + Text(leaves.size()));
    leaves.push_back(FromHex(id));
  }
  for (const std::string& note : checkpoints_) {
    const auto checkpoint = ParseCheckpoint(note);
    if (!checkpoint.ok()) return Fail("a signed checkpoint cannot be read");
    const uint64_t size = checkpoint->checkpoint.size;
    if (size == 0 || size > leaves.size()) return Fail("a checkpoint of a size that never was");
    if (NaiveRoot(std::span(leaves).first(size)) != checkpoint->checkpoint.root)
      return Fail("the checkpoint of size " + Text(size) + " has another root than its leaves");
  }
}

}  // namespace assay::sim
