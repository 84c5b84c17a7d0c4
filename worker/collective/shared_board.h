// Gathering bytes through memory, for ranks that run on one machine.
//
// A transport with a thread of its own needs a core for it: where every core computes, each message
// waits for the scheduler (milliseconds, now and then), and ranks that sleep on it wake up on each
// other's core. Here the ranks' own threads copy, look for each other a tenth of a millisecond, and
// sleep in the kernel only then.

#ifndef ASSAY_WORKER_COLLECTIVE_SHARED_BOARD_H_
#define ASSAY_WORKER_COLLECTIVE_SHARED_BOARD_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace assay::collective_internal {

// Memory with a place for every rank, where it posts and the others read. It belongs to no file and
// ends with the last rank that holds it. One thread per rank uses its board.
class SharedBoard {
 public:
  // Where rank 0's memory is; the others get it by other means. Zero where there is none.
  struct Address {
    int64_t process = 0;
    int64_t descriptor = 0;
    std::array<uint8_t, 16> token = {};  // is in the memory too: another machine has other memory
  };

  // Null where the system does not give the memory.
  static std::unique_ptr<SharedBoard> Make(int size, Address* address);  // as rank 0
  // Null where the address leads to no such board: its rank 0 is elsewhere.
  static std::unique_ptr<SharedBoard> Open(const Address& address, int rank, int size);
  ~SharedBoard();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  // As Collective::AllGatherV, sizes checked. Every rank holds its board before the first call.
  // Returns "" or why it failed: a peer's process is gone or has closed its board, or has not come
  // within timeout_ms; nothing may follow then.
  std::string AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                         std::span<uint8_t> recv, int64_t timeout_ms);

 private:
  struct Place;

  SharedBoard(int descriptor, int rank, int size)
      : descriptor_(descriptor), rank_(rank), size_(size) {}
  bool Map();
  Place& PlaceOf(int rank) const;
  void Post(std::span<const uint8_t> bytes);
  std::string Await(int rank, uint64_t bytes, int64_t timeout_ms) const;
  bool Present(int rank) const;

  const int descriptor_;
  const int rank_, size_;
  uint8_t* memory_ = nullptr;
  uint32_t round_ = 0;  // of messages posted; the same on every rank
};

}  // namespace assay::collective_internal

#endif  // ASSAY_WORKER_COLLECTIVE_SHARED_BOARD_H_
