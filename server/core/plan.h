// The parts of planning that its two files share. Internal to server/core.

#ifndef ASSAY_SERVER_CORE_PLAN_H_
#define ASSAY_SERVER_CORE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/core/steps.h"

namespace assay::core {

inline bool IsOpen(UnitState s) {
  return s == UnitState::kBlocked || s == UnitState::kReady || s == UnitState::kLeased;
}

// operands.cc
void AddUnit(Txn& t, UnitRow unit);
bool HasFiles(const State& s, const std::string& capture, int generation,
              const std::vector<int64_t>& contexts);
// Cuts `contexts` into units of at most `contexts_max` contexts and `tokens_max` tokens.
std::vector<std::vector<int64_t>> Cut(const std::vector<int64_t>& contexts, const RunRow& run,
                                      int64_t contexts_max, int64_t tokens_max);
// Units for those of `contexts` that neither have a file nor an open unit of that kind.
void EnsureCaptureUnits(Txn& t, const RunRow& run, const CaptureRow& capture, UnitKind kind,
                        const std::vector<int64_t>& contexts);
// Brings one operand as far as it can get now. False: it waits for something.
bool AdvanceOperand(Txn& t, RunRow* run, OperandRow* op);
// Faults that show as soon as heads are known.
std::optional<Fault> CheckHeads(const State& s, const RunRow& run, const OperandRow& op,
                                bool is_reference);

}  // namespace assay::core

#endif  // ASSAY_SERVER_CORE_PLAN_H_
