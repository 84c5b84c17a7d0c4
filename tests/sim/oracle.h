// What must always hold, checked from outside: from commands, answers and committed rows alone.
//
// Kept apart from the product on purpose: it remembers every acknowledged row and compares the
// whole store with them after each recovery.

#ifndef ASSAY_TESTS_SIM_ORACLE_H_
#define ASSAY_TESTS_SIM_ORACLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/core/apply.h"
#include "storage/base/digest.h"
#include "tests/sim/store.h"

namespace assay::sim {

class Oracle {
 public:
  // The first thing that did not hold.
  const std::optional<std::string>& failure() const { return failure_; }
  void Fail(const std::string& why) {
    if (!failure_) failure_ = why;
  }

  // A batch whose outcomes are given away now. Rows are acknowledged from here on.
  void OnAcknowledged(const std::vector<const Command*>& commands,
                      const std::vector<Outcome>& outcomes);
  // A batch whose commit ended with an error: it may be found after the next start, or not.
  void OnUnknown(const std::vector<Outcome>& outcomes);
  // A store that opened; `epoch` is what its rows say, before this life's own.
  void OnOpened(const LogStore& store, uint64_t epoch);
  // What a client was told.
  void OnRunSeen(const std::string& run, const RunRow* row, bool known_before);
  // The receipt's bytes that a seal command of this run and candidate carries.
  void OnSealBuilt(const SealDone& done, const std::string& report, const std::string& receipt);
  // At the end: the log's root from the leaves alone, at every size that was ever signed.
  void CheckLog();

  // Results that came too late and were neither accepted nor counted twice.
  uint64_t late_results() const { return late_; }
  uint64_t receipts() const { return receipts_.size(); }

 private:
  using Key = std::pair<size_t, std::string>;  // table, key

  void CheckOutcome(const Command& command, const Outcome& outcome);
  void CheckAck(const Synchronize& sync, const LeaseResult& result, const Ack& ack,
                const Outcome& outcome);
  void CheckRow(const Row& row);
  void CheckUnit(const UnitRow& unit);
  void CheckRun(const RunRow& run);
  void CheckDisputes(const std::string& run);
  void CheckMeta(const MetaRow& meta);
  template <class R>
  void CheckUnchanged(const Row& row, const R& typed, const char* what);
  void Merge(const std::vector<Row>& rows);

  std::optional<std::string> failure_;
  std::map<Key, std::string> acknowledged_;
  std::vector<Row> unknown_;
  bool has_unknown_ = false;

  std::map<uint64_t, UnitRow> units_;
  std::map<std::string, RunRow> runs_;
  std::map<uint64_t, std::string> accepted_;                       // unit -> result digest
  std::map<std::string, std::pair<std::string, uint64_t>> lease_;  // lease -> process, unit
  std::map<std::string, std::string> sealed_;   // run + label -> report; at most once
  std::map<std::string, std::string> built_;    // run + candidate -> report id
  std::map<std::string, std::string> bytes_;    // digest of a sealed document -> bytes
  std::map<std::string, ReceiptRow> receipts_;  // by id
  std::map<uint64_t, std::string> leaves_;      // leaf index -> receipt id
  std::set<std::string> checkpoints_;           // every one that was ever signed and committed
  MetaRow meta_;
  uint64_t epoch_ = 0;  // of this life
  uint64_t late_ = 0;
  std::map<std::string, uint64_t> seen_revision_;
};

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_ORACLE_H_
