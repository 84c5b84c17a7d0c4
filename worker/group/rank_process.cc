#include "worker/group/rank_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int kRankFd = 3;
constexpr size_t kReadBytes = 64 << 10;
constexpr uint64_t kLogTailBytes = 600;
constexpr int64_t kDeathWaitMs = 500;  // between the end of the stream and the end of the process

// The end of a rank's log, on one line, for error messages.
std::string LogTail(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kLogTailBytes));
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), from);
  close(fd);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  // Descriptors 0 to 3 as the rank expects them and no other; default signals, none blocked.
  int Prepare(const std::string& log_path, int socket) {
    int error = posix_spawn_file_actions_adddup2(&actions, socket, kRankFd);
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    }
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(),
                                               O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    }
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions, kRankFd + 1);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (error == 0) {
      error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    return error;
  }
};

}  // namespace

RankProcess::RankProcess(const RankSpawn& spawn, pid_t pid, int fd)
    : rank_(spawn.rank), log_path_(spawn.log_path), pid_(pid), fd_(fd) {}

RankProcess::~RankProcess() { Kill(); }

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Spawn(const RankSpawn& spawn) {
  if (access(spawn.program.c_str(), X_OK) != 0) {
    return NotFoundError("RANK_PROGRAM_MISSING",
                         spawn.program +
                             " is not an executable file; assay-rank belongs beside "
                             "assay and assay-worker, install the whole build");
  }
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return ErrnoError(errno, "socketpair for a rank");
  }
  // Above the descriptors the child sets up, so that opening 0 to 2 cannot close it first.
  int child = fcntl(sockets[1], F_DUPFD_CLOEXEC, kRankFd + 1);
  close(sockets[1]);
  SpawnSetup setup;
  int error = child < 0 ? errno : setup.Prepare(spawn.log_path, child);
  pid_t pid = -1;
  if (error == 0) {
    std::string program = spawn.program, flag = "--fd", number = std::to_string(kRankFd);
    char* argv[] = {program.data(), flag.data(), number.data(), nullptr};
    std::vector<std::string> environment = spawn.environment;
    std::vector<char*> envp;
    for (std::string& entry : environment) envp.push_back(entry.data());
    envp.push_back(nullptr);
    error =
        posix_spawn(&pid, program.c_str(), &setup.actions, &setup.attributes, argv, envp.data());
  }
  if (child >= 0) close(child);
  if (error != 0) {
    close(sockets[0]);
    return Error(absl::StatusCode::kUnavailable, "RANK_START_FAILED",
                 "starting " + spawn.program + ": " + MessageOf(ErrnoError(error, "posix_spawn")));
  }
  fcntl(sockets[0], F_SETFL, fcntl(sockets[0], F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<RankProcess>(new RankProcess(spawn, pid, sockets[0]));
}

absl::Status RankProcess::Send(const RankCommand& command) {
  ASSAY_ASSIGN_OR_RETURN(const std::string line, EncodeCommand(command));
  if (fd_ < 0) return UnavailableError("RANK_DIED", Obituary());
  size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    // Commands are a few hundred bytes: a full socket means a rank that stopped reading.
    if (n <= 0) return UnavailableError("RANK_DIED", Obituary());
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status RankProcess::Receive(std::vector<RankEvent>* events) {
  if (fd_ < 0) return UnavailableError("RANK_DIED", Obituary());
  std::string chunk(kReadBytes, '\0');
  const ssize_t got = recv(fd_, chunk.data(), chunk.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return absl::OkStatus();
  }
  if (got <= 0) return UnavailableError("RANK_DIED", Obituary());
  absl::Status status = lines_.Append(std::string_view(chunk.data(), static_cast<size_t>(got)));
  std::string line;
  while (status.ok() && lines_.Next(&line)) {
    absl::StatusOr<RankEvent> event = DecodeEvent(line);
    status = event.status();
    if (event.ok()) events->push_back(std::move(*event));
  }
  if (status.ok()) return status;
  const std::string why = MessageOf(status);
  Kill();
  return UnavailableError("RANK_DIED",
                          Obituary() + "; it had sent something else than an event: " + why);
}

bool RankProcess::Reap(bool block) {
  if (reaped_) return true;
  pid_t got;
  do {
    got = waitpid(pid_, &wait_status_, block ? 0 : WNOHANG);
  } while (got < 0 && errno == EINTR);
  reaped_ = got != 0;
  return reaped_;
}

void RankProcess::Signal() {
  if (Reap(false)) return;
  killed_by_us_ = true;
  kill(pid_, SIGKILL);
}

void RankProcess::Kill() {
  Signal();
  Reap(true);
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void RankProcess::Finish(int64_t grace_ms) {
  const int64_t end = Clock::Real()->MonotonicMillis() + grace_ms;
  while (!Reap(false) && Clock::Real()->MonotonicMillis() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  Kill();
}

std::string RankProcess::Obituary() {
  Finish(kDeathWaitMs);
  std::string text = "rank " + std::to_string(rank_) + " (process " + std::to_string(pid_) + ") ";
  if (killed_by_us_) {
    text += "stopped answering and was killed";
  } else if (WIFSIGNALED(wait_status_)) {
    const int number = WTERMSIG(wait_status_);
    text += "was killed by signal " + std::to_string(number);
    if (const char* name = sigabbrev_np(number)) text += std::string(" (SIG") + name + ")";
    if (number == SIGKILL) text += ", perhaps for want of memory";
  } else {
    text += "ended with code " + std::to_string(WEXITSTATUS(wait_status_));
  }
  const std::string tail = LogTail(log_path_);
  if (!tail.empty()) text += "; its last words: " + tail;
  return text;
}

}  // namespace assay
