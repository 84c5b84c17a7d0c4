// One spawned assay-rank, as its parent sees it.

#ifndef ASSAY_WORKER_GROUP_RANK_PROCESS_H_
#define ASSAY_WORKER_GROUP_RANK_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/rank/protocol.h"

namespace assay {

struct RankSpawn {
  std::string program;
  std::string log_path;                  // gets the rank's standard output and error
  int rank = 0;                          // for messages
  std::vector<std::string> environment;  // whole environment, "NAME=value"
};

// Owns the process and the socket to it; the destructor kills and reaps. Not thread-safe.
class RankProcess {
 public:
  // posix_spawn with the socket as descriptor 3, standard input from /dev/null and nothing else of
  // this process's descriptors or signal mask. RANK_PROGRAM_MISSING, RANK_START_FAILED.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Spawn(const RankSpawn& spawn);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  int fd() const { return fd_; }  // readable when Receive has something
  pid_t pid() const { return pid_; }

  // RANK_DIED when the rank no longer listens.
  absl::Status Send(const RankCommand& command);

  // Takes what has arrived without blocking. RANK_DIED at the end of the stream or for bytes that
  // are no event; events before it are still appended.
  absl::Status Receive(std::vector<RankEvent>* events);

  // SIGKILL, unless the process was reaped: its number may be another process's by now.
  void Signal();
  // Signal and reap; then the socket is closed. Idempotent.
  void Kill();

  // Gives the rank `grace_ms` to end by itself, then kills it.
  void Finish(int64_t grace_ms);

  // "rank 1 (process 4711) was killed by signal 9 (Killed); its last words: ...". Kills first when
  // the process still lives.
  std::string Obituary();

 private:
  RankProcess(const RankSpawn& spawn, pid_t pid, int fd);
  bool Reap(bool block);

  const int rank_;
  const std::string log_path_;
  pid_t pid_;
  int fd_;
  bool reaped_ = false;
  bool killed_by_us_ = false;
  int wait_status_ = 0;
  LineBuffer lines_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_RANK_PROCESS_H_
