// A group: the rank processes of one host that execute one unit at a time together.
//
// A Group spawns `size` assay-rank processes, introduces them to each other in a fresh rendezvous
// folder and drives them with the JSON lines of worker/rank/protocol.h. A rank that dies, hangs or
// loses a peer costs the attempt, not the work: every rank is killed, the group starts again and
// the unit is tried again, up to GroupOptions::max_attempts. Outputs do not depend on any of this.
// Input errors (NON_FINITE_INPUT, FILE_MISSING, ...) are final at once.
//
// Ownership: the Group owns its processes, sockets, rendezvous folders and log files; when it is
// destroyed no process, no zombie and no descriptor is left. Ranks also end by themselves when the
// owning process dies, however that happens.

#ifndef ASSAY_WORKER_GROUP_GROUP_H_
#define ASSAY_WORKER_GROUP_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// Every limit of a group. Times in milliseconds.
struct GroupOptions {
  int size = 1;          // ranks = tensor-parallel degree: 1, 2, 4 or 8
  int threads = 0;       // compute threads of each rank; 0 = CPUs of the affinity mask / size
  std::string work_dir;  // for rendezvous, unit files and rank logs; made when absent; one Group
                         // at a time may use it
  std::string rank_program;      // "" = assay-rank beside this program
  bool capture = true;           // load the capture engine; false = replay and prepare only
  std::string capture_library;   // "" = libassay_capture.so beside the rank program
  std::string backend = "auto";  // collective: "auto", "gloo", "nccl"

  int max_attempts = 3;                     // per unit, first try included
  int64_t start_timeout_ms = 120'000;       // from spawn to "ready" of every rank
  int64_t progress_timeout_ms = 600'000;    // without any line from any rank while a unit runs
  int64_t collective_timeout_ms = 600'000;  // one collective operation inside the ranks
  int64_t settle_timeout_ms = 5'000;        // for the others once one rank failed or was cancelled

  // Asked about five times a second while the group starts or a unit runs; true ends it with
  // CANCELLED. For programs that only have a flag (Ctrl-C). May be empty.
  std::function<bool()> interrupted;
};

// What one rank counted for one unit: proof that no rank computed everything.
struct RankCounters {
  uint64_t multiply_adds = 0;
  uint64_t weight_bytes = 0;
};

struct UnitOutcome {
  Json result;                         // of rank 0; members by unit kind, worker/rank/protocol.h
  std::vector<RankCounters> counters;  // by rank, of the attempt that succeeded
  int attempts = 1;                    // 1 = undisturbed
};

// Called on the thread of Run with rank 0's progress. False cancels the unit.
using UnitProgress = std::function<bool(uint64_t done, uint64_t total)>;

// CPUs this process may run on (the affinity mask, never the CPUs of the machine); at least 1.
int AffinityCpus();

// The folder of the running program: where assay-rank and libassay_capture.so are looked for.
std::string ProgramFolder();

class Group {
 public:
  // Spawns the ranks and waits until all are ready. RANK_PROGRAM_MISSING, GROUP_OPTIONS_INVALID,
  // RANK_START_FAILED (with the rank's last log lines), KERNEL_IDENTITY_DIFFERS when two ranks
  // disagree, or the rank's own error.
  static absl::StatusOr<std::unique_ptr<Group>> Start(GroupOptions options);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Kernel identity of the ranks, {"replay": {...}, "capture": {...} | null}; the same for the
  // Group's whole life, over restarts too (KERNEL_IDENTITY_DIFFERS otherwise).
  const Json& identity() const;
  int size() const;
  int threads() const;  // per rank, after resolving 0

  // Executes one unit (kinds and members: worker/rank/protocol.h) and blocks until it is done.
  // Output files appear in `out_dir`, which is made when absent. One call at a time.
  // Errors: the rank's own (details of a refused row with DetailsOf), CANCELLED after Cancel or a
  // false progress, RANK_DIED when every attempt lost a rank.
  absl::StatusOr<UnitOutcome> Run(const Json& unit, const std::string& out_dir,
                                  const UnitProgress& progress = nullptr);

  // Ends the Run in progress (or, when none is, the next one) with CANCELLED. Any thread, not from
  // signal handlers.
  void Cancel();

  // Kills the ranks and starts fresh processes: what sentinel repeats ask for.
  absl::Status Restart();

  // Asks the ranks to leave, kills those that do not. Run afterwards starts the group again.
  void Shutdown();

  // Process ids by rank, empty after Shutdown. For tests and logs.
  std::vector<int> pids() const;

 private:
  struct Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_GROUP_H_
