// Ranks that are threads of one process and exchange through memory.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "storage/base/macros.h"
#include "worker/collective/checks.h"
#include "worker/collective/collective.h"

namespace assay {
namespace {

using collective_internal::CheckAllGather;
using collective_internal::CheckAllGatherV;
using collective_internal::CheckAllToAllV;
using collective_internal::Failed;

// What a rank shows to the others during one operation.
struct Posting {
  std::span<const uint8_t> bytes;
  std::span<const uint64_t> counts;
};

struct Group {
  Group(int size, int64_t timeout) : timeout_ms(timeout), postings(size) {}

  const int64_t timeout_ms;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Posting> postings;
  uint64_t round = 0;   // completed meetings
  size_t arrived = 0;   // ranks waiting for the current one
  bool broken = false;  // a peer is gone or gave up

  // Returns "" when all have met, else why not. The lock orders the postings between threads.
  std::string Meet() {
    std::unique_lock<std::mutex> lock(mutex);
    if (broken) return "a peer is gone";
    const uint64_t mine = round;
    if (++arrived == postings.size()) {
      arrived = 0;
      ++round;
      changed.notify_all();
      return "";
    }
    const bool done = changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                       [&] { return round != mine || broken; });
    if (round != mine) return "";
    if (!done) {
      broken = true;
      changed.notify_all();
      return "timed out";
    }
    return "a peer is gone";
  }

  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex);
    broken = true;
    changed.notify_all();
  }
};

class ThreadCollective : public Collective {
 public:
  ThreadCollective(int rank, std::shared_ptr<Group> group)
      : rank_(rank), group_(std::move(group)) {}
  ~ThreadCollective() override { group_->Leave(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->postings.size()); }
  std::string_view name() const override { return "threads"; }

  absl::Status AllGather(std::span<const uint8_t> send, std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGather(send.size(), recv.size(), size()));
    const std::vector<uint64_t> counts(size(), send.size());
    return AllGatherV(send, counts, recv);
  }

  absl::Status AllGatherV(std::span<const uint8_t> send, std::span<const uint64_t> counts,
                          std::span<uint8_t> recv) override {
    ASSAY_RETURN_IF_ERROR(CheckAllGatherV(send.size(), counts, recv.size(), rank_, size()));
    ASSAY_RETURN_IF_ERROR(Post("all-gather", {send, counts}));
    bool fits = true;
    size_t at = 0;
    for (int r = 0; r < size(); ++r) {
      const std::span<const uint8_t> theirs = group_->postings[r].bytes;
      fits = fits && theirs.size() == counts[r];
      if (fits) std::copy(theirs.begin(), theirs.end(), recv.begin() + at);
      at += counts[r];
    }
    return Close("all-gather", fits);
  }

  absl::Status AllToAllV(std::span<const uint8_t> send, std::span<const uint64_t> send_counts,
                         std::span<uint8_t> recv, std::span<const uint64_t> recv_counts) override {
    ASSAY_RETURN_IF_ERROR(
        CheckAllToAllV(send.size(), send_counts, recv.size(), recv_counts, rank_, size()));
    ASSAY_RETURN_IF_ERROR(Post("all-to-all", {send, send_counts}));
    bool fits = true;
    size_t at = 0;
    for (int r = 0; r < size(); ++r) {
      const Posting& theirs = group_->postings[r];
      fits = fits && theirs.counts.size() == static_cast<size_t>(size()) &&
             theirs.counts[rank_] == recv_counts[r];
      if (fits) {
        uint64_t from = 0;
        for (int k = 0; k < rank_; ++k) from += theirs.counts[k];
        const auto first = theirs.bytes.begin() + static_cast<int64_t>(from);
        std::copy(first, first + static_cast<int64_t>(recv_counts[r]), recv.begin() + at);
      }
      at += recv_counts[r];
    }
    return Close("all-to-all", fits);
  }

  absl::Status Barrier() override {
    ASSAY_RETURN_IF_ERROR(Post("barrier", {}));
    return Close("barrier", true);
  }

 private:
  absl::Status Post(std::string_view operation, Posting posting) {
    {
      const std::lock_guard<std::mutex> lock(group_->mutex);
      group_->postings[rank_] = posting;
    }
    return Met(operation);
  }

  // The second meeting keeps every sender's buffer alive until all have copied.
  absl::Status Close(std::string_view operation, bool fits) {
    ASSAY_RETURN_IF_ERROR(Met(operation));
    return fits ? absl::OkStatus() : Failed(rank_, size(), operation, "ranks disagree on sizes");
  }

  absl::Status Met(std::string_view operation) {
    const std::string why = group_->Meet();
    return why.empty() ? absl::OkStatus() : Failed(rank_, size(), operation, why);
  }

  const int rank_;
  const std::shared_ptr<Group> group_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> CreateThreadCollectives(int size, int64_t timeout_ms) {
  auto group = std::make_shared<Group>(size, timeout_ms);
  std::vector<std::unique_ptr<Collective>> out;
  for (int r = 0; r < size; ++r) out.push_back(std::make_unique<ThreadCollective>(r, group));
  return out;
}

}  // namespace assay
