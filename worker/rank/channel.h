// The rank's end of the protocol socket.

#ifndef ASSAY_WORKER_RANK_CHANNEL_H_
#define ASSAY_WORKER_RANK_CHANNEL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "worker/rank/protocol.h"

namespace assay {

// Reads commands on a thread of its own, so that a cancel, and the parent's death, are seen while
// the main thread computes. When the socket closes, or carries something that is no command, the
// whole process ends: a rank without a parent has no purpose, and its peers must see it go.
class RankChannel {
 public:
  // Takes `fd`, an open stream socket, until the process ends.
  explicit RankChannel(int fd);
  ~RankChannel();
  RankChannel(const RankChannel&) = delete;
  RankChannel& operator=(const RankChannel&) = delete;

  // Starts the reading thread. Call once.
  void Start();

  // Blocks for the next init, run or shutdown; cancels are kept for Cancelled.
  RankCommand Next();

  // True once the parent cancelled unit `id`. Any thread, cheap.
  bool Cancelled(int64_t id) const { return cancelled_.load(std::memory_order_relaxed) >= id; }

  // Writes one event. Ends the process when the parent is gone. Any thread. An event that does not
  // fit in a line is replaced by the RankFailed that says so when `id` > 0.
  void Send(const RankEvent& event, int64_t id = 0);

 private:
  void ReadLoop();

  const int fd_;
  std::thread reader_;
  std::atomic<int64_t> cancelled_{0};
  std::mutex mutex_;  // guards commands_
  std::condition_variable arrived_;
  std::deque<RankCommand> commands_;
  std::mutex write_mutex_;
};

// Commands that wait at most; one more ends the process, since no parent sends a second unit early.
inline constexpr size_t kRankCommandsMax = 16;

}  // namespace assay

#endif  // ASSAY_WORKER_RANK_CHANNEL_H_
