#include "server/rpc/listener_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "server/auth/client_hello.h"

namespace assay::rpc {
namespace {

constexpr std::string_view kUnix = "unix:";

// A socket that is connected, or -1.
int ConnectUnix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) return -1;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  // Without O_NONBLOCK the call would wait for room in a queue that nobody empties.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

constexpr int kUnresolved = -2;

// A socket that is connected or about to be, or -1; kUnresolved when the name means nothing now.
int ConnectTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return kUnresolved;
  const int fd =
      ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol);
  if (fd >= 0) static_cast<void>(::connect(fd, found->ai_addr, found->ai_addrlen));
  ::freeaddrinfo(found);
  return fd;
}

bool Greet(int fd, int64_t ms) {
  static const std::string hello = ClientHello();
  pollfd polled = {fd, POLLOUT, 0};
  return ::poll(&polled, 1, static_cast<int>(ms)) == 1 &&
         ::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size());
}

}  // namespace

bool ListenerAnswers(const std::string& address, int64_t ms, bool tls) {
  const bool local = std::string_view(address).substr(0, kUnix.size()) == kUnix;
  const int fd = local ? ConnectUnix(address.substr(kUnix.size())) : ConnectTcp(address);
  if (fd == kUnresolved) return true;  // a name server that is away says nothing about us
  if (fd < 0) return false;
  // A TLS server waits for the client to speak first.
  if (tls && !local && !Greet(fd, ms)) {
    ::close(fd);
    return false;
  }
  pollfd polled = {fd, POLLIN, 0};
  char byte = 0;
  const bool answered = ::poll(&polled, 1, static_cast<int>(ms)) == 1 && ::read(fd, &byte, 1) == 1;
  ::close(fd);
  return answered;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace assay::rpc
