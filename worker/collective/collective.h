// Collectives: how the ranks of one group exchange bytes.
//
// Only bytes move. Nothing is ever summed by a collective: a floating-point sum inside a library
// has an order that changes with the number of ranks, and Assay's results must not (design 4).
// Callers gather partial results and add them themselves in a fixed order.
//
// Every rank of a group calls the same operations in the same order with matching sizes. A call
// blocks until its data have moved. A dead peer or a timeout is an error (COLLECTIVE_FAILED), never
// a hang or a crash; after an error the object is of no further use and the group is started again.

#ifndef ASSAY_WORKER_COLLECTIVE_COLLECTIVE_H_
#define ASSAY_WORKER_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// Not thread-safe: one thread per rank calls it. Errors: COLLECTIVE_FAILED (a peer or the
// transport), COLLECTIVE_USAGE (sizes that do not fit together; nothing was sent).
class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;  // "single", "gloo", "nccl"

  // recv (size * send bytes) = every rank's send in rank order. All ranks send equally many bytes.
  virtual absl::Status AllGather(std::span<const uint8_t> send, std::span<uint8_t> recv) = 0;

  // As AllGather with counts[r] bytes from rank r; `counts` is the same on all ranks, send has
  // counts[rank()] bytes, recv their sum. Counts may be 0.
  virtual absl::Status AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                                  std::span<uint8_t> recv) = 0;

  // Rank r gets the send_counts[r] bytes that lie after those for lower ranks in `send`; recv holds
  // what came from rank 0, 1, ... in order, recv_counts[r] bytes each. recv_counts[r] here equals
  // send_counts[rank()] on rank r.
  virtual absl::Status AllToAllV(std::span<const uint8_t> send,
                                 std::span<const uint64_t> send_counts, std::span<uint8_t> recv,
                                 std::span<const uint64_t> recv_counts) = 0;

  // Returns when every rank has called it.
  virtual absl::Status Barrier() = 0;
};

inline constexpr int kCollectiveSizeMax = 64;
inline constexpr int64_t kCollectiveTimeoutMsDefault = 60'000;

struct CollectiveOptions {
  int rank = 0;
  int size = 1;  // 1..kCollectiveSizeMax
  // A folder that all ranks can read and write, empty or fresh for each start of a group: peers
  // find each other through files in it. Not used by a group of one.
  std::string rendezvous;
  int64_t timeout_ms = kCollectiveTimeoutMsDefault;  // for connecting and for each operation
  // "auto": single for size 1, else nccl where a CUDA device exists and the nccl library was built,
  // else gloo. "single", "gloo" and "nccl" force one.
  std::string backend = "auto";
  // Address that Gloo listens on; "" means the loopback interface (ranks of a group share one
  // host).
  std::string bind_address;
  // Gloo: what ranks gather goes through memory where all of them run on one machine (the same
  // bytes, without waiting for a thread of the transport).
  bool through_memory = true;
};

// Joins the group: returns when every rank has joined, or after the timeout with COLLECTIVE_FAILED.
// COLLECTIVE_USAGE for options out of range, COLLECTIVE_UNAVAILABLE for a forced backend that this
// build or machine does not have. Gloo: the process ignores SIGPIPE from then on, unless it handles
// it.
absl::StatusOr<std::unique_ptr<Collective>> CreateCollective(const CollectiveOptions& options);

// `size` collectives that exchange through memory, one for each thread of this process: for tests
// and for several ranks in one process. Element r is rank r. A destroyed peer counts as dead.
std::vector<std::unique_ptr<Collective>> CreateThreadCollectives(int size, int64_t timeout_ms);

}  // namespace assay

#endif  // ASSAY_WORKER_COLLECTIVE_COLLECTIVE_H_
