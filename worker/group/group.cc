#include "worker/group/group.h"

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/group/rank_set.h"
#include "worker/rank/protocol.h"

namespace assay {
namespace {

constexpr int64_t kTickMs = 200;
constexpr int64_t kLeaveGraceMs = 2000;
constexpr char kRankProgram[] = "assay-rank";
constexpr char kCaptureLibrary[] = "libassay_capture.so";

absl::Status Cancelled() {
  return Error(absl::StatusCode::kCancelled, "CANCELLED", "the unit was cancelled");
}

// Losing a rank is nobody's input's fault: the unit deserves another try. GROUP_RANK_FAILED only
// points at another rank, whose own error counts when it gave one.
bool Retryable(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "RANK_DIED" || reason == "RANK_HUNG" || reason == "COLLECTIVE_FAILED" ||
         reason == "RANK_START_FAILED" || reason == "GROUP_RANK_FAILED";
}

absl::Status CheckOptions(GroupOptions* options) {
  const auto invalid = [](const std::string& why) {
    return InvalidError("GROUP_OPTIONS_INVALID", why);
  };
  if (options->size != 1 && options->size != 2 && options->size != 4 && options->size != 8) {
    return invalid("tensor-parallel degree " + std::to_string(options->size) +
                   " is not one of 1, 2, 4, 8");
  }
  if (options->threads < 0 || options->threads > kRankThreadsMax) {
    return invalid("threads per rank must be 0 (automatic) to " + std::to_string(kRankThreadsMax));
  }
  if (options->work_dir.empty()) return invalid("a group needs a work folder");
  if (options->max_attempts < 1) return invalid("max_attempts must be at least 1");
  if (options->threads == 0) options->threads = std::max(1, AffinityCpus() / options->size);
  if (options->rank_program.empty()) {
    options->rank_program = JoinPath(ProgramFolder(), kRankProgram);
  }
  if (options->capture_library.empty()) {
    options->capture_library = JoinPath(DirName(options->rank_program), kCaptureLibrary);
  }
  return absl::OkStatus();
}

// Progress of one attempt at one unit.
struct Attempt {
  struct Rank {
    std::optional<RankDone> done;
    absl::Status failed;
    bool over() const { return done.has_value() || !failed.ok(); }
  };
  int64_t id = 0;
  std::vector<Rank> ranks;
  bool cancelled = false;
  bool all_over() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const Rank& r) { return r.over(); });
  }
  // The most telling failure: an input error before a lost peer, low ranks first.
  absl::Status Failure() const {
    absl::Status worst;
    for (const Rank& rank : ranks) {
      if (rank.failed.ok()) continue;
      if (worst.ok() || (Retryable(worst) && !Retryable(rank.failed))) worst = rank.failed;
    }
    return worst;
  }
};

}  // namespace

int AffinityCpus() {
  // The static cpu_set_t ends at 1024 CPUs; larger machines answer EINVAL and get a larger set.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    if (set == nullptr) return 1;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    const int error = errno;
    const int count = ok ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (ok) return std::max(1, count);
    if (error != EINVAL) return 1;
  }
  return 1;
}

std::string ProgramFolder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0 || length == sizeof(path)) return ".";
  return DirName(std::string_view(path, static_cast<size_t>(length)));
}

struct Group::Impl {
  GroupOptions options;
  int wake_fd = -1;  // eventfd: readable while a cancel waits
  Json identity;
  int incarnation = 0;
  int64_t next_id = 1;
  mutable std::mutex set_mutex;  // guards the pointer for pids()
  std::unique_ptr<RankSet> set;

  ~Impl() {
    if (set) set->Leave(kLeaveGraceMs);
    set.reset();
    if (wake_fd >= 0) close(wake_fd);
  }

  void Drop() {
    std::unique_ptr<RankSet> old;
    {
      const std::lock_guard<std::mutex> lock(set_mutex);
      old = std::move(set);
    }
  }

  absl::Status EnsureStarted() {
    if (set) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(std::unique_ptr<RankSet> fresh,
                           RankSet::Start(options, incarnation++, wake_fd));
    if (identity.is_null()) identity = fresh->identity();
    if (fresh->identity() != identity) {
      return PreconditionError("KERNEL_IDENTITY_DIFFERS",
                               "after a restart the ranks compute with " +
                                   fresh->identity().dump() + " instead of " + identity.dump() +
                                   "; the worker programs were replaced while running");
    }
    const std::lock_guard<std::mutex> lock(set_mutex);
    set = std::move(fresh);
    return absl::OkStatus();
  }

  bool TakeCancel() const {
    uint64_t count = 0;
    return read(wake_fd, &count, sizeof(count)) == sizeof(count);
  }

  absl::StatusOr<UnitOutcome> RunOnce(const Json& unit, const std::string& out_dir,
                                      const UnitProgress& progress);
  absl::Status Drive(Attempt* attempt, const UnitProgress& progress);
  void Note(const RankNews::Entry& entry, Attempt* attempt, const UnitProgress& progress,
            bool* stop) const;
};

void Group::Impl::Note(const RankNews::Entry& entry, Attempt* attempt, const UnitProgress& progress,
                       bool* stop) const {
  Attempt::Rank& rank = attempt->ranks[static_cast<size_t>(entry.rank)];
  if (const auto* step = std::get_if<RankProgress>(&entry.event)) {
    if (entry.rank == 0 && step->id == attempt->id && progress && !*stop) {
      *stop = !progress(step->done, step->total);
    }
  } else if (const auto* done = std::get_if<RankDone>(&entry.event)) {
    if (done->id == attempt->id) rank.done = *done;
  } else if (const auto* failed = std::get_if<RankFailed>(&entry.event)) {
    if (failed->id == attempt->id) rank.failed = failed->status;
  }
}

// Until every rank is over, one is lost, or the limits are reached. OK means all are over.
absl::Status Group::Impl::Drive(Attempt* attempt, const UnitProgress& progress) {
  Clock* clock = Clock::Real();
  int64_t progress_end = clock->MonotonicMillis() + options.progress_timeout_ms;
  std::optional<int64_t> settle_end;
  bool stop = false;
  while (!attempt->all_over()) {
    const int64_t now = clock->MonotonicMillis();
    if (settle_end && now >= *settle_end)
      return attempt->cancelled ? Cancelled() : attempt->Failure();
    if (now >= progress_end) {
      return UnavailableError("RANK_HUNG", "no rank made progress for " +
                                               std::to_string(options.progress_timeout_ms) + " ms");
    }
    stop = stop || TakeCancel() || (options.interrupted && options.interrupted());
    if (stop && !attempt->cancelled) {
      attempt->cancelled = true;
      set->SendAll(RankCancel{attempt->id}).IgnoreError();
      settle_end = now + options.settle_timeout_ms;
    }
    const RankNews news = set->Wait(std::min(kTickMs, progress_end - now), wake_fd);
    for (const RankNews::Entry& entry : news.events) Note(entry, attempt, progress, &stop);
    if (!news.events.empty()) {
      progress_end = clock->MonotonicMillis() + options.progress_timeout_ms;
    }
    const absl::Status failure = attempt->Failure();
    if (!news.died.ok()) {
      if (attempt->cancelled) return Cancelled();
      return failure.ok() || Retryable(failure) ? news.died : failure;
    }
    if (!failure.ok() && !settle_end) {
      settle_end = clock->MonotonicMillis() + options.settle_timeout_ms;
    }
  }
  return attempt->cancelled && !attempt->Failure().ok() ? Cancelled() : attempt->Failure();
}

absl::StatusOr<UnitOutcome> Group::Impl::RunOnce(const Json& unit, const std::string& out_dir,
                                                 const UnitProgress& progress) {
  ASSAY_RETURN_IF_ERROR(EnsureStarted());
  Attempt attempt;
  attempt.id = next_id++;
  attempt.ranks.resize(static_cast<size_t>(options.size));
  const std::string unit_path =
      JoinPath(options.work_dir, "unit-" + std::to_string(attempt.id) + ".json");
  std::string text;
  try {
    text = unit.dump();
  } catch (const std::exception& error) {
    return InvalidError("UNIT_INVALID", std::string("the unit is no valid JSON: ") + error.what());
  }
  absl::Status status = WriteFile(unit_path, text);
  if (status.ok()) status = set->SendAll(RankRun{attempt.id, unit_path, out_dir});
  if (status.ok()) status = Drive(&attempt, progress);
  unlink(unit_path.c_str());
  if (!status.ok()) {
    // After any failure the peers of a larger group may wait for each other in a collective: only
    // fresh processes are known to be in step. One rank alone keeps its loaded model, unless it is
    // the one that broke.
    if (options.size > 1 || Retryable(status) || !attempt.all_over()) Drop();
    return status;
  }
  UnitOutcome outcome;
  outcome.result = attempt.ranks[0].done->result;
  for (const Attempt::Rank& rank : attempt.ranks) {
    outcome.counters.push_back({rank.done->multiply_adds, rank.done->weight_bytes});
  }
  return outcome;
}

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::~Group() = default;

absl::StatusOr<std::unique_ptr<Group>> Group::Start(GroupOptions options) {
  ASSAY_RETURN_IF_ERROR(CheckOptions(&options));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(options.work_dir));
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (impl->wake_fd < 0) return ErrnoError(errno, "eventfd for a group");
  ASSAY_RETURN_IF_ERROR(impl->EnsureStarted());
  return std::unique_ptr<Group>(new Group(std::move(impl)));
}

const Json& Group::identity() const { return impl_->identity; }
int Group::size() const { return impl_->options.size; }
int Group::threads() const { return impl_->options.threads; }

absl::StatusOr<UnitOutcome> Group::Run(const Json& unit, const std::string& out_dir,
                                       const UnitProgress& progress) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(out_dir));
  std::string losses;
  for (int attempt = 1;; ++attempt) {
    // Asked here too: a unit may be over before Drive asks.
    if (impl_->options.interrupted && impl_->options.interrupted()) return Cancelled();
    absl::StatusOr<UnitOutcome> outcome = impl_->RunOnce(unit, out_dir, progress);
    if (outcome.ok()) {
      outcome->attempts = attempt;
      return outcome;
    }
    if (!Retryable(outcome.status())) {
      if (ReasonOf(outcome.status()) == "CANCELLED") impl_->TakeCancel();
      return outcome.status();
    }
    losses += (losses.empty() ? "" : " | ") + MessageOf(outcome.status());
    if (attempt >= impl_->options.max_attempts) {
      return UnavailableError("RANK_DIED", "the unit lost a rank in each of " +
                                               std::to_string(attempt) + " attempts: " + losses);
    }
  }
}

void Group::Cancel() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(impl_->wake_fd, &one, sizeof(one));
}

absl::Status Group::Restart() {
  Shutdown();
  return impl_->EnsureStarted();
}

void Group::Shutdown() {
  if (impl_->set) impl_->set->Leave(kLeaveGraceMs);
  impl_->Drop();
}

std::vector<int> Group::pids() const {
  const std::lock_guard<std::mutex> lock(impl_->set_mutex);
  return impl_->set ? impl_->set->pids() : std::vector<int>();
}

}  // namespace assay
