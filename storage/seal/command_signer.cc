#include "storage/seal/command_signer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr size_t kSignatureBytes = 64;
constexpr int64_t kExitWaitStepMs = 5;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void Set(int fd) { fd_ = fd; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// While it lives, a pipe that nobody reads costs this thread an error instead of the process its
// life.
class QuietPipe {
 public:
  QuietPipe() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~QuietPipe() {
    const timespec none{};
    if (sigismember(&before_, SIGPIPE) == 0) ::sigtimedwait(&set_, nullptr, &none);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  QuietPipe(const QuietPipe&) = delete;
  QuietPipe& operator=(const QuietPipe&) = delete;

 private:
  sigset_t set_, before_;
};

// One run of the program. Killed and reaped when the object goes before the program has ended.
class Run {
 public:
  ~Run() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  bool Start(const std::string& program) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0) return false;
    Fd child_in(in[0]);
    in_.Set(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) return false;
    out_.Set(out[0]);
    Fd child_out(out[1]);
    ::fcntl(in_.get(), F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
    // Signals that this process blocks must reach the program.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::string name = program, path = "PATH=/usr/local/bin:/usr/bin:/bin";
    char* arguments[] = {name.data(), nullptr};
    char* environment[] = {path.data(), nullptr};
    const int error =
        ::posix_spawn(&pid_, program.c_str(), &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) pid_ = -1;
    return error == 0;
  }

  // Feeds `message` and collects the answer, at most one byte more than a signature; false when
  // `deadline` comes first. A program that does not read its input to the end is no error here.
  bool Exchange(std::string_view message, int64_t deadline, std::string* answer) {
    while (out_.get() >= 0) {
      pollfd fds[2] = {{out_.get(), POLLIN, 0}, {in_.get(), POLLOUT, 0}};
      const int64_t left = deadline - Clock::Real()->MonotonicMillis();
      if (left <= 0) return false;
      const int ready = ::poll(fds, in_.get() >= 0 ? 2 : 1, static_cast<int>(left));
      if (ready < 0 && errno != EINTR) return false;
      if (ready <= 0) continue;
      if (in_.get() >= 0 && fds[1].revents != 0) Feed(&message);
      if (fds[0].revents != 0) Collect(answer);
    }
    return true;
  }

  // Exit status 0 before `deadline`.
  bool EndedWell(int64_t deadline) {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::Real()->MonotonicMillis() >= deadline) return false;
      ::poll(nullptr, 0, kExitWaitStepMs);
    }
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  void Feed(std::string_view* message) {
    const QuietPipe quiet;
    const ssize_t n = ::write(in_.get(), message->data(), message->size());
    if (n > 0) message->remove_prefix(static_cast<size_t>(n));
    if (message->empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) in_.Close();
  }
  void Collect(std::string* answer) {
    char buffer[256];
    const ssize_t n = ::read(out_.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) return;
    if (n > 0) answer->append(buffer, static_cast<size_t>(n));
    if (n <= 0 || answer->size() > kSignatureBytes) out_.Close();
  }

  pid_t pid_ = -1;
  Fd in_, out_;
};

class CommandSigner : public Signer {
 public:
  CommandSigner(CommandSignerOptions options, const PublicKey& key)
      : options_(std::move(options)), key_(key) {}
  const PublicKey& public_key() const override { return key_; }

  absl::StatusOr<std::string> Sign(std::string_view message) const override {
    const int64_t deadline = Clock::Real()->MonotonicMillis() + options_.timeout_ms;
    Run run;
    std::string answer;
    if (!run.Start(options_.program)) return Unavailable("cannot be started");
    if (!run.Exchange(message, deadline, &answer)) return Unavailable("gave no answer in time");
    if (answer.size() <= kSignatureBytes && !run.EndedWell(deadline)) {
      return Unavailable("did not end with exit status 0");
    }
    if (answer.size() == kSignatureBytes && key_.Verify(message, answer)) return answer;
    return UnavailableError(
        "SIGNATURE_REFUSED",
        options_.program +
            ": what it wrote is not the 64-byte Ed25519 signature of its input by key " +
            key_.key_id() +
            "; nothing was sealed. Give the program that key, or the right "
            "--signer-key");
  }

 private:
  absl::Status Unavailable(const std::string& what) const {
    return UnavailableError("SIGNER_UNAVAILABLE", options_.program + " " + what +
                                                      "; nothing was sealed. Make it work, "
                                                      "sealing is tried again by itself");
  }

  const CommandSignerOptions options_;
  const PublicKey key_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Signer>> OpenCommandSigner(const CommandSignerOptions& options) {
  if (options.program.empty() || options.program.front() != '/' ||
      ::access(options.program.c_str(), X_OK) != 0) {
    return InvalidError("SIGNER_INVALID",
                        options.program +
                            ": a signer is the absolute path of a program that this "
                            "user may execute");
  }
  if (options.public_key.empty()) {
    return InvalidError("SIGNER_INVALID",
                        "a signer program needs the public key that it signs "
                        "with: give --signer-key");
  }
  ASSAY_ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromFile(options.public_key));
  return std::make_unique<CommandSigner>(options, key);
}

}  // namespace assay
