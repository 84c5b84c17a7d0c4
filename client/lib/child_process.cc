#include "client/lib/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

extern char** environ;

namespace assay {
namespace {

constexpr int kLifelineFd = 3;
constexpr size_t kTailBytesMax = 4096;
constexpr int kTailLines = 5;

// The attributes and file actions of posix_spawn, released together.
struct SpawnSetup {
  SpawnSetup() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
  }
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

void Prepare(SpawnSetup* setup, const std::string& log_path, int read_end) {
  posix_spawn_file_actions_addopen(&setup->actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&setup->actions, STDOUT_FILENO, log_path.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&setup->actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&setup->actions, read_end, kLifelineFd);
  posix_spawn_file_actions_addclosefrom_np(&setup->actions, kLifelineFd + 1);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&defaults, number);
  posix_spawnattr_setsigmask(&setup->attributes, &none);
  posix_spawnattr_setsigdefault(&setup->attributes, &defaults);
  posix_spawnattr_setpgroup(&setup->attributes, 0);
  posix_spawnattr_setflags(&setup->attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

}  // namespace

std::string TailOf(const std::string& path, int lines) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const off_t size = lseek(fd, 0, SEEK_END);
  std::string text(std::min<size_t>(kTailBytesMax, static_cast<size_t>(std::max<off_t>(size, 0))),
                   '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  close(fd);
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t start = text.size();
  for (int i = 0; i < lines && start != std::string::npos && start > 0; ++i) {
    start = text.rfind('\n', start - 1);
  }
  return start == std::string::npos || start == 0 ? text : text.substr(start + 1);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::string& program, std::vector<std::string> arguments, const std::string& log_path) {
  if (access(program.c_str(), X_OK) != 0) {
    return NotFoundError("PROGRAM_MISSING",
                         fmt::format("{} is not there; assay finds the programs it starts in its "
                                     "own folder, install them together",
                                     program));
  }
  int lifeline[2];
  if (pipe2(lifeline, O_CLOEXEC) != 0) return ErrnoError(errno, "cannot make a pipe");
  // The read end must be none of the descriptors that the child gets anew: a program that was
  // started with standard input closed may find it there, and dup2 onto itself keeps O_CLOEXEC.
  if (lifeline[0] <= kLifelineFd) {
    const int other = fcntl(lifeline[0], F_DUPFD_CLOEXEC, kLifelineFd + 1);
    const int error = errno;
    close(lifeline[0]);
    lifeline[0] = other;
    if (other < 0) {
      close(lifeline[1]);
      return ErrnoError(error, "cannot make a pipe");
    }
  }
  SpawnSetup setup;
  Prepare(&setup, log_path, lifeline[0]);
  arguments.insert(arguments.begin(), program);
  arguments.push_back("--parent-fd");
  arguments.push_back(std::to_string(kLifelineFd));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, program.c_str(), &setup.actions, &setup.attributes, argv.data(), environ);
  close(lifeline[0]);
  if (error != 0) {
    close(lifeline[1]);
    const absl::Status cause = ErrnoError(error, fmt::format("cannot start {}", program));
    return InternalError("PROGRAM_NOT_STARTED", MessageOf(cause));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(program, log_path, pid, lifeline[1]));
}

ChildProcess::~ChildProcess() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    Reap(0);
  }
  close(lifeline_);
}

bool ChildProcess::Reap(int options) {
  if (reaped_) return true;
  pid_t result;
  do {
    result = waitpid(pid_, &wait_status_, options);
  } while (result < 0 && errno == EINTR);
  reaped_ = result != 0;
  return reaped_;
}

bool ChildProcess::Alive() { return !Reap(WNOHANG); }

void ChildProcess::Stop(int64_t grace_ms) {
  if (!Alive()) return;
  kill(pid_, SIGTERM);
  const int64_t deadline = Clock::Real()->MonotonicMillis() + grace_ms;
  while (Alive() && Clock::Real()->MonotonicMillis() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!Alive()) return;
  kill(pid_, SIGKILL);
  Reap(0);
}

std::string ChildProcess::Obituary() {
  std::string what = "is running";
  if (!Alive()) {
    what = WIFSIGNALED(wait_status_)
               ? fmt::format("was killed by signal {}", WTERMSIG(wait_status_))
               : fmt::format("ended with exit code {}", WEXITSTATUS(wait_status_));
  }
  const std::string tail = TailOf(log_path_, kTailLines);
  return fmt::format("{} {}; last lines of {}:\n{}", BaseName(program_), what, log_path_, tail);
}

}  // namespace assay
