// NCCL behind the same interface, one rank per CUDA device. Built into libassay_nccl.so only, which
// nothing links: the factory loads it where it exists.
//
// The communicator is non-blocking and every wait has a deadline, so a dead peer ends in
// COLLECTIVE_FAILED; the communicator is then aborted.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/collective/backends.h"
#include "worker/collective/checks.h"

namespace assay::collective_internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kPoll{50};
constexpr std::chrono::milliseconds kFilePoll{5};

class Nccl : public Collective {
 public:
  explicit Nccl(const CollectiveOptions& options)
      : rank_(options.rank),
        size_(options.size),
        timeout_(options.timeout_ms),
        rendezvous_(options.rendezvous) {}

  ~Nccl() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    if (device_send_ != nullptr) cudaFree(device_send_);
    if (device_recv_ != nullptr) cudaFree(device_recv_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Join() {
    ASSAY_RETURN_IF_ERROR(Cuda(cudaSetDevice(rank_), "cudaSetDevice"));
    ASSAY_RETURN_IF_ERROR(
        Cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
    ASSAY_ASSIGN_OR_RETURN(const ncclUniqueId id, ExchangeId());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return Settle(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), "joining the group");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "nccl"; }

  absl::Status AllGather(std::span<const uint8_t> send, std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGather(send.size(), recv.size(), size_));
    return Exchange("all-gather", send, recv, [&] {
      return ncclAllGather(device_send_, device_recv_, send.size(), ncclUint8, comm_, stream_);
    });
  }

  absl::Status AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                          std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGatherV(send.size(), counts, recv.size(), rank_, size_));
    return Exchange("all-gather", send, recv, [&] {
      return Grouped(
          [&](int peer) { return std::pair<uint64_t, uint64_t>(send.size(), counts[peer]); },
          /*same_send=*/true);
    });
  }

  absl::Status AllToAllV(std::span<const uint8_t> send, std::span<const uint64_t> send_counts,
                         std::span<uint8_t> recv, std::span<const uint64_t> recv_counts) override {
    ASSAY_RETURN_IF_ERROR(
        CheckAllToAllV(send.size(), send_counts, recv.size(), recv_counts, rank_, size_));
    return Exchange("all-to-all", send, recv, [&] {
      return Grouped(
          [&](int peer) {
            return std::pair<uint64_t, uint64_t>(send_counts[peer], recv_counts[peer]);
          },
          /*same_send=*/false);
    });
  }

  absl::Status Barrier() override {
    const uint8_t mine = 0;
    std::vector<uint8_t> all(size_);
    return AllGather({&mine, 1}, all);
  }

 private:
  absl::Status Fail(std::string_view operation, std::string_view why) {
    failed_ = true;
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
    return Failed(rank_, size_, operation, why);
  }

  absl::Status Cuda(cudaError_t error, std::string_view operation) {
    if (error == cudaSuccess) return absl::OkStatus();
    return Fail(operation, cudaGetErrorString(error));
  }

  // Waits until a call on the non-blocking communicator has taken effect.
  absl::Status Settle(ncclResult_t result, std::string_view operation) {
    const SteadyClock::time_point deadline = SteadyClock::now() + timeout_;
    while (result == ncclInProgress) {
      if (SteadyClock::now() > deadline) return Fail(operation, "timed out");
      std::this_thread::sleep_for(kPoll);
      const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
      if (asked != ncclSuccess) result = asked;
    }
    return result == ncclSuccess ? absl::OkStatus() : Fail(operation, ncclGetErrorString(result));
  }

  // Waits for the stream, watching for a peer's death.
  absl::Status Drain(std::string_view operation) {
    const SteadyClock::time_point deadline = SteadyClock::now() + timeout_;
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return absl::OkStatus();
      if (state != cudaErrorNotReady) return Fail(operation, cudaGetErrorString(state));
      ncclResult_t async = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(comm_, &async);
      if (asked != ncclSuccess) async = asked;
      if (async != ncclSuccess && async != ncclInProgress) {
        return Fail(operation, ncclGetErrorString(async));
      }
      if (SteadyClock::now() > deadline) return Fail(operation, "timed out");
      std::this_thread::sleep_for(kPoll);
    }
  }

  absl::Status Reserve(uint8_t** buffer, uint64_t* have, uint64_t want) {
    if (want <= *have) return absl::OkStatus();
    if (*buffer != nullptr) cudaFree(*buffer);
    *buffer = nullptr;
    *have = 0;
    ASSAY_RETURN_IF_ERROR(
        Cuda(cudaMalloc(reinterpret_cast<void**>(buffer), want), "allocating an exchange buffer"));
    *have = want;
    return absl::OkStatus();
  }

  absl::Status Exchange(std::string_view operation, std::span<const uint8_t> send,
                        std::span<uint8_t> recv, const std::function<ncclResult_t()>& launch) {
    if (failed_) return Failed(rank_, size_, operation, "an earlier operation failed");
    ASSAY_RETURN_IF_ERROR(Cuda(cudaSetDevice(rank_), operation));
    ASSAY_RETURN_IF_ERROR(Reserve(&device_send_, &send_capacity_, send.size() + 1));
    ASSAY_RETURN_IF_ERROR(Reserve(&device_recv_, &recv_capacity_, recv.size() + 1));
    ASSAY_RETURN_IF_ERROR(Cuda(
        cudaMemcpyAsync(device_send_, send.data(), send.size(), cudaMemcpyHostToDevice, stream_),
        operation));
    ASSAY_RETURN_IF_ERROR(Settle(launch(), operation));
    ASSAY_RETURN_IF_ERROR(Drain(operation));
    ASSAY_RETURN_IF_ERROR(Cuda(
        cudaMemcpyAsync(recv.data(), device_recv_, recv.size(), cudaMemcpyDeviceToHost, stream_),
        operation));
    return Drain(operation);
  }

  // One send and one receive per peer in a group; `sizes(peer)` = bytes sent to it and received
  // from it.
  template <typename Sizes>
  ncclResult_t Grouped(const Sizes& sizes, bool same_send) {
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    uint64_t send_at = 0, recv_at = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const auto [send_bytes, recv_bytes] = sizes(peer);
      const auto note = [&](ncclResult_t r) {
        if (r != ncclSuccess && r != ncclInProgress && result == ncclSuccess) result = r;
      };
      if (send_bytes > 0) {
        note(ncclSend(device_send_ + send_at, send_bytes, ncclUint8, peer, comm_, stream_));
      }
      if (recv_bytes > 0) {
        note(ncclRecv(device_recv_ + recv_at, recv_bytes, ncclUint8, peer, comm_, stream_));
      }
      if (!same_send) send_at += send_bytes;
      recv_at += recv_bytes;
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  }

  // Rank 0 makes the id and writes it; the others wait for the file.
  absl::StatusOr<ncclUniqueId> ExchangeId() {
    ncclUniqueId id;
    const std::string path = JoinPath(rendezvous_, "nccl-unique-id");
    if (rank_ == 0) {
      const ncclResult_t made = ncclGetUniqueId(&id);
      if (made != ncclSuccess) return Fail("making the group's id", ncclGetErrorString(made));
      ASSAY_RETURN_IF_ERROR(EnsureDirectory(rendezvous_));
      ASSAY_RETURN_IF_ERROR(
          WriteFileAtomic(path, std::string_view(id.internal, sizeof id.internal)));
      return id;
    }
    const SteadyClock::time_point deadline = SteadyClock::now() + timeout_;
    while (!FileExists(path)) {
      if (SteadyClock::now() > deadline) return Fail("waiting for the group's id", "timed out");
      std::this_thread::sleep_for(kFilePoll);
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, sizeof id.internal));
    if (bytes.size() != sizeof id.internal) return Fail("reading the group's id", "wrong size");
    std::memcpy(id.internal, bytes.data(), bytes.size());
    return id;
  }

  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  const std::string rendezvous_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  uint8_t* device_send_ = nullptr;
  uint8_t* device_recv_ = nullptr;
  uint64_t send_capacity_ = 0, recv_capacity_ = 0;
  bool failed_ = false;
};

}  // namespace
}  // namespace assay::collective_internal

extern "C" {

int assay_nccl_abi() { return assay::collective_internal::kNcclAbi; }

int assay_nccl_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

assay::Collective* assay_nccl_create(const assay::CollectiveOptions* options,
                                     absl::Status* status) {
  if (assay_nccl_device_count() < options->size) {
    *status = assay::PreconditionError(
        "COLLECTIVE_UNAVAILABLE",
        "nccl needs one CUDA device per rank: " + std::to_string(options->size) + " ranks, " +
            std::to_string(assay_nccl_device_count()) + " devices");
    return nullptr;
  }
  auto nccl = std::make_unique<assay::collective_internal::Nccl>(*options);
  *status = nccl->Join();
  return status->ok() ? nccl.release() : nullptr;
}
}
