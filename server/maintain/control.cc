#include "server/maintain/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr size_t kRequestBytesMax = 1 << 16;
constexpr size_t kAnswerBytesMax = 1 << 20;
constexpr int kRequestMs = 5'000;

// A socket's name has 107 bytes at most, a data folder's any number: it is named through a
// descriptor of the folder. `use` gets the address.
template <class F>
absl::Status WithAddress(const std::string& data_dir, F use) {
  const int folder = ::open(data_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return ErrnoError(errno, "opening folder " + data_dir);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/control", folder);
  const int result = use(reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  const int error = errno;
  ::close(folder);
  if (result == 0) return absl::OkStatus();
  return ErrnoError(error, "using the socket " + JoinPath(data_dir, "control"));
}

absl::Status SendAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoError(errno, "writing to the control socket");
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// Up to the newline. `ms` < 0: no limit.
absl::StatusOr<std::string> ReceiveLine(int fd, size_t bytes_max, int ms) {
  std::string line;
  char buffer[4096];
  while (line.find('\n') == std::string::npos) {
    pollfd ready{fd, POLLIN, 0};
    const int n_ready = ::poll(&ready, 1, ms);
    if (n_ready < 0 && errno == EINTR) continue;
    if (n_ready == 0) return UnavailableError("CONTROL_SILENT", "the other end says nothing");
    const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "reading from the control socket");
    if (n == 0) break;
    line.append(buffer, static_cast<size_t>(n));
    if (line.size() > bytes_max)
      return InvalidError("CONTROL_INVALID", "the line on the control socket is too long");
  }
  if (line.empty() || line.back() != '\n') {
    return UnavailableError("COORDINATOR_DIED",
                            "the coordinator ended before it answered; see its log");
  }
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& data_dir,
                                                                    ControlHandler handler) {
  const std::string path = JoinPath(data_dir, "control");
  ::unlink(path.c_str());  // of a process that was killed: the folder's lock is ours
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoError(errno, "making a socket");
  const absl::Status bound = WithAddress(
      data_dir, [&](const sockaddr* name, socklen_t size) { return ::bind(fd, name, size); });
  if (!bound.ok() || ::chmod(path.c_str(), 0600) != 0 || ::listen(fd, 4) != 0) {
    const int error = errno;
    ::close(fd);
    return bound.ok() ? ErrnoError(error, "listening at " + path) : bound;
  }
  const int stop_fd = ::eventfd(0, EFD_CLOEXEC);
  return std::unique_ptr<ControlServer>(new ControlServer(path, fd, stop_fd, std::move(handler)));
}

ControlServer::ControlServer(std::string path, int listen_fd, int stop_fd, ControlHandler handler)
    : path_(std::move(path)),
      listen_fd_(listen_fd),
      stop_fd_(stop_fd),
      handler_(std::move(handler)),
      thread_([this] { Loop(); }) {}

ControlServer::~ControlServer() {
  const uint64_t one = 1;
  (void)!::write(stop_fd_, &one, sizeof(one));
  thread_.join();
  ::close(listen_fd_);
  ::close(stop_fd_);
  ::unlink(path_.c_str());
}

void ControlServer::Loop() {
  pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  while (true) {
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if ((fds[1].revents & POLLIN) != 0) return;
    if ((fds[0].revents & POLLIN) == 0) continue;
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    Serve(fd);
    ::close(fd);
  }
}

void ControlServer::Serve(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != 0 && peer.uid != ::geteuid())) {
    return;
  }
  const auto handle = [&]() -> absl::StatusOr<std::string> {
    ASSAY_ASSIGN_OR_RETURN(const std::string line, ReceiveLine(fd, kRequestBytesMax, kRequestMs));
    ASSAY_ASSIGN_OR_RETURN(const Json request, ParseJson(line, "control request"));
    try {
      return handler_(request);
    } catch (const std::exception& error) {  // a member of another type than wanted
      return InvalidError("CONTROL_INVALID", std::string("the request: ") + error.what());
    }
  };
  const absl::StatusOr<std::string> answer = handle();
  Json out = answer.ok() ? Json{{"text", *answer}}
                         : Json{{"code", static_cast<int>(answer.status().code())},
                                {"reason", ReasonOf(answer.status())},
                                {"message", MessageOf(answer.status())}};
  SendAll(fd, out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n").IgnoreError();
}

absl::StatusOr<std::string> AskCoordinator(const std::string& data_dir, const Json& request) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoError(errno, "making a socket");
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  const absl::Status connected = WithAddress(
      data_dir, [&](const sockaddr* name, socklen_t size) { return ::connect(fd, name, size); });
  if (!connected.ok()) {
    return UnavailableError("COORDINATOR_NOT_RUNNING", "no coordinator uses the data folder " +
                                                           data_dir + " (" + MessageOf(connected) +
                                                           "); start it, or give the right --data");
  }
  ASSAY_RETURN_IF_ERROR(SendAll(fd, request.dump() + "\n"));
  ASSAY_ASSIGN_OR_RETURN(const std::string line, ReceiveLine(fd, kAnswerBytesMax, -1));
  ASSAY_ASSIGN_OR_RETURN(const Json answer, ParseJson(line, "the coordinator's answer"));
  if (answer.contains("text")) return answer.at("text").get<std::string>();
  return Error(static_cast<absl::StatusCode>(answer.value("code", 13)),
               answer.value("reason", "STORE_FAILED"), answer.value("message", ""));
}

}  // namespace assay
