// Gloo over TCP. Ranks find each other through files in the rendezvous folder. Where all of them
// run on one machine, what they gather goes through memory (shared_board.h) once they are
// connected.

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/collective/backends.h"
#include "worker/collective/checks.h"
#include "worker/collective/shared_board.h"

namespace assay::collective_internal {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kFailedBefore = "an earlier operation failed";

// Runs `body`; Gloo tells of dead peers, timeouts and misuse by exceptions, which end here.
template <typename Body>
absl::Status Guarded(int rank, int size, std::string_view operation, const Body& body) {
  try {
    body();
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return Failed(rank, size, operation, e.what());
  } catch (...) {
    return Failed(rank, size, operation, "unknown exception from Gloo");
  }
}

// Gloo takes writable pointers for what it only reads, and refuses null even for no bytes.
uint8_t* Readable(std::span<const uint8_t> bytes, uint8_t* empty) {
  return bytes.empty() ? empty : const_cast<uint8_t*>(bytes.data());
}

// Gloo writes to sockets without MSG_NOSIGNAL: a peer that has died would end the process by
// SIGPIPE before Gloo could say so. A handler that the program has set stays.
void SurviveDeadPeers() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  signal(SIGPIPE, SIG_IGN);
}

// Gloo's own thread waits for the lock of a connection by asking for events again and again. Where
// every core is busy, a wake-up that takes the core from the thread that holds the lock then wastes
// the rest of a time slice, some milliseconds for each exchange. A thread of the batch class does
// not take the core on waking and inherits its class from the thread that starts it.
class BatchClass {
 public:
  BatchClass() : was_(sched_getscheduler(0)) {
    if (was_ == SCHED_OTHER) Set(SCHED_BATCH);
  }
  ~BatchClass() {
    if (was_ == SCHED_OTHER) Set(SCHED_OTHER);
  }
  BatchClass(const BatchClass&) = delete;
  BatchClass& operator=(const BatchClass&) = delete;

 private:
  static void Set(int policy) {
    const sched_param none = {};
    sched_setscheduler(0, policy, &none);  // of this thread; a refusal costs time only
  }

  const int was_;
};

class Gloo : public Collective {
 public:
  Gloo(std::shared_ptr<gloo::rendezvous::Context> context, int64_t timeout_ms)
      : context_(std::move(context)), timeout_ms_(timeout_ms) {}

  ~Gloo() override {
    const absl::Status ignored =
        Guarded(rank(), size(), "close", [&] { context_->closeConnections(); });
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  std::string_view name() const override { return "gloo"; }

  absl::Status AllGather(std::span<const uint8_t> send, std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGather(send.size(), recv.size(), size()));
    if (recv.empty()) return Barrier();
    if (board_ != nullptr) {
      return RunOnBoard("all-gather", send, std::vector<uint64_t>(size(), send.size()), recv);
    }
    return Run("all-gather", [&] {
      gloo::AllgatherOptions options(context_);
      options.setInput(Readable(send, &empty_), send.size());
      options.setOutput(recv.data(), recv.size());
      options.setTag(NextTag());
      gloo::allgather(options);
    });
  }

  absl::Status AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                          std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGatherV(send.size(), counts, recv.size(), rank(), size()));
    if (recv.empty()) return Barrier();
    if (board_ != nullptr) return RunOnBoard("all-gather", send, counts, recv);
    return Run("all-gather", [&] {
      gloo::AllgathervOptions options(context_);
      options.setInput(Readable(send, &empty_), send.size());
      options.setOutput(recv.data(), std::vector<size_t>(counts.begin(), counts.end()));
      options.setTag(NextTag());
      gloo::allgatherv(options);
    });
  }

  absl::Status AllToAllV(std::span<const uint8_t> send, std::span<const uint64_t> send_counts,
                         std::span<uint8_t> recv, std::span<const uint64_t> recv_counts) override {
    ASSAY_RETURN_IF_ERROR(
        CheckAllToAllV(send.size(), send_counts, recv.size(), recv_counts, rank(), size()));
    return Run("all-to-all", [&] {
      gloo::AlltoallvOptions options(context_);
      options.setInput(Readable(send, &empty_),
                       std::vector<int64_t>(send_counts.begin(), send_counts.end()));
      options.setOutput(recv.empty() ? &empty_ : recv.data(),
                        std::vector<int64_t>(recv_counts.begin(), recv_counts.end()));
      options.setTag(NextTag());
      gloo::alltoallv(options);
    });
  }

  absl::Status Barrier() override {
    if (board_ != nullptr) return RunOnBoard("barrier", {}, std::vector<uint64_t>(size()), {});
    return Run("barrier", [&] {
      gloo::BarrierOptions options(context_);
      options.setTag(NextTag());
      gloo::barrier(options);
    });
  }

  // Through Gloo: all ranks open rank 0's board, or none uses it.
  absl::Status ShareBoard() {
    SharedBoard::Address own;
    std::unique_ptr<SharedBoard> board;
    if (rank() == 0) board = SharedBoard::Make(size(), &own);
    std::vector<SharedBoard::Address> all(size());
    ASSAY_RETURN_IF_ERROR(
        AllGather({reinterpret_cast<const uint8_t*>(&own), sizeof(own)},
                  {reinterpret_cast<uint8_t*>(all.data()), all.size() * sizeof(own)}));
    if (rank() != 0) board = SharedBoard::Open(all[0], rank(), size());
    const uint8_t have = board != nullptr ? 1 : 0;
    std::vector<uint8_t> others(size());
    ASSAY_RETURN_IF_ERROR(AllGather({&have, 1}, others));
    if (std::count(others.begin(), others.end(), 1) == size()) board_ = std::move(board);
    return absl::OkStatus();
  }

 private:
  // After a failure the connections are in an unknown state; nothing may follow.
  template <typename Body>
  absl::Status Run(std::string_view operation, const Body& body) {
    if (failed_) return Failed(rank(), size(), operation, kFailedBefore);
    absl::Status status = Guarded(rank(), size(), operation, body);
    failed_ = !status.ok();
    return status;
  }

  absl::Status RunOnBoard(std::string_view operation, std::span<const uint8_t> send,
                          std::span<const uint64_t> counts, std::span<uint8_t> recv) {
    if (failed_) return Failed(rank(), size(), operation, kFailedBefore);
    const std::string why = board_->AllGatherV(send, counts, recv, timeout_ms_);
    failed_ = !why.empty();
    return failed_ ? Failed(rank(), size(), operation, why) : absl::OkStatus();
  }

  // Operations follow each other, so a small cycle of tags keeps neighbours apart.
  uint32_t NextTag() { return tag_++ & 0xffffu; }

  const std::shared_ptr<gloo::rendezvous::Context> context_;
  const int64_t timeout_ms_;
  std::unique_ptr<SharedBoard> board_;  // none where a rank runs on another machine
  uint32_t tag_ = 0;
  bool failed_ = false;
  uint8_t empty_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> CreateGloo(const CollectiveOptions& options) {
  SurviveDeadPeers();
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(options.rendezvous));
  std::unique_ptr<Gloo> out;
  ASSAY_RETURN_IF_ERROR(Guarded(options.rank, options.size, "joining the group", [&] {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options.bind_address.empty() ? kLoopback : options.bind_address;
    std::shared_ptr<gloo::transport::Device> device = [&] {
      const BatchClass batch;
      return gloo::transport::tcp::CreateDevice(attributes);
    }();
    gloo::rendezvous::FileStore store(options.rendezvous);
    auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(std::chrono::milliseconds(options.timeout_ms));
    context->connectFullMesh(store, device);
    out = std::make_unique<Gloo>(std::move(context), options.timeout_ms);
  }));
  if (options.through_memory) ASSAY_RETURN_IF_ERROR(out->ShareBoard());
  return out;
}

}  // namespace assay::collective_internal
