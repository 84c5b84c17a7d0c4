// The parts of Apply, one file each. Internal to server/core.

#ifndef ASSAY_SERVER_CORE_STEPS_H_
#define ASSAY_SERVER_CORE_STEPS_H_

#include <string>

#include "server/core/apply.h"
#include "storage/base/json.h"

namespace assay::core {

// runs.cc
absl::StatusOr<RunAnswer> DoCreateRun(Txn& t, const std::string& principal,
                                      const CreateRun& command);
absl::StatusOr<RunAnswer> DoCancelRun(Txn& t, const CancelRun& command);
absl::Status DoSealDone(Txn& t, const SealDone& command);
absl::Status DoSealFailed(Txn& t, const SealFailed& command);
void SetRunState(Txn& t, RunRow* run, RunState state);
void FailRun(Txn& t, RunRow* run, const Fault& error);
// Marks the candidate failed; ends the run when none is left.
void FailCandidate(Txn& t, RunRow* run, size_t candidate, const Fault& error);
// Ends a SEALING run whose candidates have all ended.
void FinishSealing(Txn& t, RunRow* run);
// Drops units nobody waits for any more, cancels their leases.
void DropUnneeded(Txn& t, const RunRow& run);

// planner.cc: does what a run needs next (units, capture choice, readiness, SEALING). Idempotent.
void Reconcile(Txn& t, const std::string& run);
void ReconcileAll(Txn& t);
// Runs that use the unit's model or capture.
void ReconcileUsers(Txn& t, const UnitRow& unit);
// Runs that a worker who came or went can matter to.
void ReconcileUnsettled(Txn& t);
// An operand's model or capture has failed for good in every run that needs it.
void FailOperands(Txn& t, const UnitRow& unit, const Fault& error);
bool NeedsModel(const RunRow& run, const std::string& model);
bool NeedsCapture(const RunRow& run, const std::string& capture);
// Every operand that can still matter: the reference, then candidates that wait.
std::vector<OperandRow*> LiveOperands(RunRow* run);

// scheduler.cc
absl::StatusOr<SyncAnswer> DoSynchronize(Txn& t, const Synchronize& command);
void DoTick(Txn& t, const Tick& command);
void DoStart(Txn& t, const Start& command);
bool MayTake(const State& s, const WorkerState& worker, const UnitRow& unit);
bool HasIdentity(const State& s, const WorkerState& worker, const UnitRow& unit);
// waits.cc: ends the waits of units and runs that nobody can serve, and waits for the disk.
void EndStuckUnits(Txn& t);
void EndStuckRuns(Txn& t);
void WaitForDisk(Txn& t);
// grants.cc: gives the worker up to `slots` units.
void Grant(Txn& t, WorkerState& worker, int64_t slots, SyncAnswer* answer);
// Done with the kernels of replay rather than of capture.
inline bool IsReplay(UnitKind kind) {
  return kind == UnitKind::kReplay || kind == UnitKind::kNoise;
}
// Puts a leased unit back (or drops it) and forgets the lease. `outcome` goes into the attempt.
void CloseLease(Txn& t, const std::string& lease, std::string_view outcome, UnitState next);

// results.cc
Ack TakeResult(Txn& t, WorkerState& worker, const LeaseResult& outcome);
void PoisonUnit(Txn& t, UnitRow unit, const Fault& error);
void DoDocumentFailed(Txn& t, const DocumentFailed& command);

// recheck.cc: does an accepted unit again elsewhere when it is one of the sample.
void MaybeRecheck(Txn& t, const UnitRow& done);
// A check is DONE: the bytes are the same, or a third worker must decide, or the first was wrong.
void CompareRecheck(Txn& t, const UnitRow& check);
// Nobody can do the check.
void EndRecheck(Txn& t, UnitRow check, const Fault& error);
bool RechecksEnded(const State& s, const std::string& capture);

// damage.cc: forgets what lies in those blobs; models' heads and native captures are made again,
// whoever needs an imported capture or head fails.
void ForgetBlobs(Txn& t, const std::vector<std::string>& sha256s);

// prune.cc
void DoDropCaptures(Txn& t, const DropCaptures& command);

// expire.cc
void DoExpireRuns(Txn& t, const ExpireRuns& command);

// backend.cc: compares the backend of a replay result with the run's, and settles or moves the
// latter. BACKEND_DIFFERS: the unit must be done again with the run's.
absl::Status SettleBackend(Txn& t, const UnitRow& unit, const Json& result);
// What a replay unit of `run` is told: the backend asked for, else the fallback once the run has
// moved to it, else "auto" (the worker looks at the values).
std::string UnitBackend(const RunRow& run);
// "" unless workers are connected and none of them has `backend` ("" = any); else the backends that
// they have, as text.
std::string BackendsWithout(const State& s, const std::string& backend);
bool WorkerHasBackend(const WorkerState& worker, const std::string& backend);
// Moves a run that is left to the workers to the fallback as soon as a head or a captured file is
// known to hold values beyond the bf16 kernels' safe range.
void SettleByMaxima(Txn& t, RunRow* run);

// A run that waits for the unit, for logs; "" for none.
std::string WaitingRun(const State& s, const UnitRow& unit);

}  // namespace assay::core

#endif  // ASSAY_SERVER_CORE_STEPS_H_
