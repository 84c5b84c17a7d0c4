// All ranks of one incarnation of a group: started together, killed together.

#ifndef ASSAY_WORKER_GROUP_RANK_SET_H_
#define ASSAY_WORKER_GROUP_RANK_SET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "worker/group/group.h"
#include "worker/group/rank_process.h"

namespace assay {

// What one wait brought.
struct RankNews {
  struct Entry {
    int rank;
    RankEvent event;
  };
  std::vector<Entry> events;
  absl::Status died;  // not OK: some rank is gone (RANK_DIED, its obituary)
};

// Not thread-safe.
class RankSet {
 public:
  // Spawns and introduces the ranks; waits for every "ready". `options` has its defaults resolved;
  // `incarnation` counts the starts of this group from 0 and names the rendezvous folder.
  // `wake_fd` becoming readable, or options.interrupted, ends the wait with CANCELLED.
  // RANK_PROGRAM_MISSING, RANK_START_FAILED, RANK_BUILD_DIFFERS, KERNEL_IDENTITY_DIFFERS, or the
  // error a rank reported.
  static absl::StatusOr<std::unique_ptr<RankSet>> Start(const GroupOptions& options,
                                                        int incarnation, int wake_fd);
  ~RankSet();  // kills whatever lives and removes the rendezvous folder

  const Json& identity() const { return identity_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::vector<int> pids() const;

  absl::Status SendAll(const RankCommand& command);
  // Waits at most `timeout_ms` for events, a death, or `wake_fd`.
  RankNews Wait(int64_t timeout_ms, int wake_fd);
  // Asks for a shutdown and gives all together `grace_ms`.
  void Leave(int64_t grace_ms);

 private:
  RankSet() = default;
  absl::Status SpawnAll(const GroupOptions& options, int incarnation);
  absl::Status AwaitReady(const GroupOptions& options, int wake_fd);

  std::string rendezvous_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  Json identity_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_RANK_SET_H_
