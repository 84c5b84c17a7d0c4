#include "worker/collective/shared_board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>

namespace assay::collective_internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSlotBytes = 256 << 10;  // longer messages go in pieces
constexpr uint64_t kHeadBytes = 4096;       // before the first place: the token
constexpr std::chrono::microseconds kLookFor{100};
constexpr std::chrono::milliseconds kSleepFor{20};  // between looks at whether a peer is alive

long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

// A lock on byte `rank` that the kernel drops when its holder closes the file or dies.
struct flock LockOf(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

// A rank alternates between its two slots: when it comes to one again, every peer has posted the
// round between, and so has read the round before that.
struct SharedBoard::Place {
  std::atomic<uint32_t> posted;
  std::array<std::atomic<uint64_t>, 2> bytes;
  alignas(64) std::array<std::array<uint8_t, kSlotBytes>, 2> slots;
};

SharedBoard::Place& SharedBoard::PlaceOf(int rank) const {
  static_assert(std::atomic<uint32_t>::is_always_lock_free &&
                std::atomic<uint64_t>::is_always_lock_free);
  return *reinterpret_cast<Place*>(memory_ + kHeadBytes + sizeof(Place) * rank);
}

bool SharedBoard::Map() {
  void* const at = mmap(nullptr, kHeadBytes + sizeof(Place) * size_, PROT_READ | PROT_WRITE,
                        MAP_SHARED, descriptor_, 0);
  if (at == MAP_FAILED) return false;
  memory_ = static_cast<uint8_t*>(at);
  struct flock lock = LockOf(rank_);
  return fcntl(descriptor_, F_OFD_SETLK, &lock) == 0;
}

std::unique_ptr<SharedBoard> SharedBoard::Make(int size, Address* address) {
  *address = {};
  const int descriptor = memfd_create("assay-ranks", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<SharedBoard> out(new SharedBoard(descriptor, 0, size));
  Address made = {getpid(), descriptor, {}};
  if (ftruncate(descriptor, static_cast<off_t>(kHeadBytes + sizeof(Place) * size)) != 0 ||
      getrandom(made.token.data(), made.token.size(), 0) != ssize_t(made.token.size()) ||
      !out->Map()) {
    return nullptr;
  }
  std::memcpy(out->memory_, made.token.data(), made.token.size());
  *address = made;
  return out;
}

std::unique_ptr<SharedBoard> SharedBoard::Open(const Address& address, int rank, int size) {
  if (address.process == 0) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.descriptor);
  struct stat facts = {};
  // A regular file of that size only: opening anything else could wait.
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      facts.st_size != static_cast<off_t>(kHeadBytes + sizeof(Place) * size)) {
    return nullptr;
  }
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<SharedBoard> out(new SharedBoard(descriptor, rank, size));
  if (!out->Map() || std::memcmp(out->memory_, address.token.data(), address.token.size()) != 0) {
    return nullptr;
  }
  return out;
}

SharedBoard::~SharedBoard() {
  if (memory_ != nullptr) munmap(memory_, kHeadBytes + sizeof(Place) * size_);
  close(descriptor_);
}

std::string SharedBoard::AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                                    std::span<uint8_t> recv, int64_t timeout_ms) {
  const uint64_t longest = *std::max_element(counts.begin(), counts.end());
  uint64_t begin = 0;
  do {  // once for messages without bytes, too
    const auto piece = [&](int rank) {
      const uint64_t count = counts[rank];
      return std::min(count, begin + kSlotBytes) - std::min(count, begin);
    };
    ++round_;
    Post(send.subspan(std::min<uint64_t>(begin, send.size()), piece(rank_)));
    uint64_t at = 0;  // where a rank's bytes begin
    for (int rank = 0; rank < size_; at += counts[rank++]) {
      if (std::string why = Await(rank, piece(rank), timeout_ms); !why.empty()) return why;
      if (piece(rank) == 0) continue;
      std::memcpy(recv.data() + at + begin, PlaceOf(rank).slots[round_ % 2].data(), piece(rank));
    }
    begin += kSlotBytes;
  } while (begin < longest);
  return "";
}

void SharedBoard::Post(std::span<const uint8_t> bytes) {
  Place& own = PlaceOf(rank_);
  if (!bytes.empty()) std::memcpy(own.slots[round_ % 2].data(), bytes.data(), bytes.size());
  own.bytes[round_ % 2] = bytes.size();
  own.posted = round_;
  Futex(&own.posted, FUTEX_WAKE, INT_MAX, nullptr);
}

std::string SharedBoard::Await(int rank, uint64_t bytes, int64_t timeout_ms) const {
  Place& theirs = PlaceOf(rank);
  const auto posted = [&](uint32_t round) { return static_cast<int32_t>(round - round_) >= 0; };
  const auto start = Clock::now();
  while (!posted(theirs.posted) && Clock::now() - start < kLookFor) {
    // Not by giving the core away: a thread that stays runnable shares its core with another rank
    // for milliseconds while the next core is idle; one that sleeps is woken on the idle one.
    for (int i = 0; i < 64; ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
  for (uint32_t seen = theirs.posted; !posted(seen); seen = theirs.posted) {
    const timespec nap = {0, std::chrono::nanoseconds(kSleepFor).count()};
    if (Futex(&theirs.posted, FUTEX_WAIT, seen, &nap) == 0 || posted(theirs.posted)) continue;
    // What it posted before it went still counts.
    if (!Present(rank) && !posted(theirs.posted)) return "a peer is gone";
    if (Clock::now() - start > std::chrono::milliseconds(timeout_ms)) return "timed out";
  }
  return theirs.bytes[round_ % 2] == bytes ? "" : "ranks disagree on sizes";
}

bool SharedBoard::Present(int rank) const {
  struct flock lock = LockOf(rank);
  return fcntl(descriptor_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace assay::collective_internal
