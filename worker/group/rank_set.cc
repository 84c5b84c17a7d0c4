#include "worker/group/rank_set.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "storage/base/build_info.h"
#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int64_t kTickMs = 200;  // how often options.interrupted is asked

// ASSAY_RANK_DIE="RANK" or "RANK:ORDINAL" (for tests): that rank of a group's first incarnation is
// killed in the middle of the ORDINAL-th unit, counted from 1, that reports progress.
std::optional<std::string> PlannedDeath(int rank) {
  const char* plan = getenv("ASSAY_RANK_DIE");
  if (plan == nullptr || *plan == '\0') return std::nullopt;
  char* end = nullptr;
  if (strtol(plan, &end, 10) != rank || end == plan) return std::nullopt;
  const std::string ordinal = *end == ':' ? end + 1 : "1";
  return "ASSAY_KILLPOINT=rank:unit-middle@" + ordinal;
}

// This process's environment for a rank: kill points stay with the process they were meant for.
std::vector<std::string> RankEnvironment(int rank, int incarnation, int threads) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool own = false;
    for (const std::string_view name :
         {"ASSAY_KILLPOINT=", "ASSAY_RANK_DIE=", "OMP_NUM_THREADS="}) {
      own = own || text.substr(0, name.size()) == name;
    }
    if (!own) out.emplace_back(text);
  }
  out.push_back("OMP_NUM_THREADS=" + std::to_string(threads));
  if (incarnation == 0) {
    if (std::optional<std::string> death = PlannedDeath(rank)) out.push_back(*death);
  }
  return out;
}

// What AwaitReady knows of one rank.
struct Readiness {
  bool hello = false;
  bool ready = false;
  Json identity;
};

absl::Status Note(int rank, const RankEvent& event, Readiness* state) {
  if (const auto* hello = std::get_if<RankHello>(&event)) {
    state->hello = true;
    if (hello->build != BuildId()) {
      return PreconditionError("RANK_BUILD_DIFFERS",
                               "assay-rank is of build " + hello->build + ", this program of " +
                                   BuildId() + "; install the programs of one build together");
    }
  } else if (const auto* ready = std::get_if<RankReady>(&event)) {
    state->ready = true;
    state->identity = ready->identity;
  } else if (const auto* failed = std::get_if<RankFailed>(&event)) {
    return Annotate(failed->status, "rank " + std::to_string(rank) + " while starting");
  }
  return absl::OkStatus();
}

absl::Status Differs(int rank, const Json& first, const Json& other) {
  return PreconditionError("KERNEL_IDENTITY_DIFFERS",
                           "rank " + std::to_string(rank) + " computes with " + other.dump() +
                               ", rank 0 with " + first.dump() +
                               "; ranks of one group must run the same kernels");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankSet>> RankSet::Start(const GroupOptions& options,
                                                        int incarnation, int wake_fd) {
  std::unique_ptr<RankSet> set(new RankSet());
  ASSAY_RETURN_IF_ERROR(set->SpawnAll(options, incarnation));
  for (int rank = 0; rank < options.size; ++rank) {
    RankInit init;
    init.rank = rank;
    init.size = options.size;
    init.rendezvous = set->rendezvous_;
    init.threads = options.threads;
    init.backend = options.backend;
    init.capture_library = options.capture ? options.capture_library : "";
    init.collective_timeout_ms = options.collective_timeout_ms;
    absl::Status sent = set->ranks_[static_cast<size_t>(rank)]->Send(init);
    if (!sent.ok()) return UnavailableError("RANK_START_FAILED", MessageOf(sent));
  }
  ASSAY_RETURN_IF_ERROR(set->AwaitReady(options, wake_fd));
  return set;
}

RankSet::~RankSet() {
  for (auto& rank : ranks_) rank->Signal();  // all at once, then reaped one by one
  ranks_.clear();
  if (!rendezvous_.empty()) RemoveTree(rendezvous_).IgnoreError();
}

absl::Status RankSet::SpawnAll(const GroupOptions& options, int incarnation) {
  rendezvous_ = JoinPath(options.work_dir, "rendezvous-" + std::to_string(incarnation));
  ASSAY_RETURN_IF_ERROR(RemoveTree(rendezvous_));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(rendezvous_, 0700));
  for (int rank = 0; rank < options.size; ++rank) {
    RankSpawn spawn;
    spawn.program = options.rank_program;
    spawn.log_path = JoinPath(options.work_dir, "rank-" + std::to_string(rank) + ".log");
    spawn.rank = rank;
    spawn.environment = RankEnvironment(rank, incarnation, options.threads);
    ASSAY_ASSIGN_OR_RETURN(std::unique_ptr<RankProcess> process, RankProcess::Spawn(spawn));
    ranks_.push_back(std::move(process));
  }
  return absl::OkStatus();
}

absl::Status RankSet::AwaitReady(const GroupOptions& options, int wake_fd) {
  std::vector<Readiness> states(ranks_.size());
  const int64_t end = Clock::Real()->MonotonicMillis() + options.start_timeout_ms;
  while (!std::all_of(states.begin(), states.end(), [](const Readiness& s) { return s.ready; })) {
    const int64_t left = end - Clock::Real()->MonotonicMillis();
    if (left <= 0) {
      return UnavailableError("RANK_START_FAILED", "the ranks were not ready within " +
                                                       std::to_string(options.start_timeout_ms) +
                                                       " ms; see rank-*.log in " +
                                                       options.work_dir);
    }
    pollfd wake = {wake_fd, POLLIN, 0};
    if ((wake_fd >= 0 && poll(&wake, 1, 0) > 0) || (options.interrupted && options.interrupted())) {
      return Error(absl::StatusCode::kCancelled, "CANCELLED", "cancelled while the ranks started");
    }
    const RankNews news = Wait(std::min(left, kTickMs), wake_fd);
    for (const RankNews::Entry& entry : news.events) {
      ASSAY_RETURN_IF_ERROR(
          Note(entry.rank, entry.event, &states[static_cast<size_t>(entry.rank)]));
    }
    if (!news.died.ok()) return UnavailableError("RANK_START_FAILED", MessageOf(news.died));
  }
  identity_ = states[0].identity;
  for (size_t rank = 1; rank < states.size(); ++rank) {
    if (states[rank].identity != identity_) {
      return Differs(static_cast<int>(rank), identity_, states[rank].identity);
    }
  }
  return absl::OkStatus();
}

std::vector<int> RankSet::pids() const {
  std::vector<int> out;
  for (const auto& rank : ranks_) out.push_back(rank->pid());
  return out;
}

absl::Status RankSet::SendAll(const RankCommand& command) {
  for (auto& rank : ranks_) ASSAY_RETURN_IF_ERROR(rank->Send(command));
  return absl::OkStatus();
}

RankNews RankSet::Wait(int64_t timeout_ms, int wake_fd) {
  std::vector<pollfd> polled;
  for (const auto& rank : ranks_) polled.push_back({rank->fd(), POLLIN, 0});
  polled.push_back({wake_fd, POLLIN, 0});
  RankNews news;
  const int ready =
      poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(0, timeout_ms)));
  if (ready <= 0) return news;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (polled[rank].revents == 0) continue;
    std::vector<RankEvent> events;
    absl::Status status = ranks_[rank]->Receive(&events);
    for (RankEvent& event : events)
      news.events.push_back({static_cast<int>(rank), std::move(event)});
    if (!status.ok() && news.died.ok()) news.died = status;
  }
  return news;
}

void RankSet::Leave(int64_t grace_ms) {
  for (auto& rank : ranks_) {
    if (rank->fd() >= 0) rank->Send(RankShutdown{}).IgnoreError();
  }
  const int64_t end = Clock::Real()->MonotonicMillis() + grace_ms;
  for (auto& rank : ranks_) {
    rank->Finish(std::max<int64_t>(0, end - Clock::Real()->MonotonicMillis()));
  }
}

}  // namespace assay
