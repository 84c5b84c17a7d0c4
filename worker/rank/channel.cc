#include "worker/rank/channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "storage/base/status.h"

namespace assay {
namespace {

constexpr size_t kReadBytes = 64 << 10;

// Ends without destructors: the main thread may be inside a library.
[[noreturn]] void Leave(int code, const std::string& why) {
  if (!why.empty()) {
    fprintf(stderr, "assay-rank: %s\n", why.c_str());
    fflush(stderr);
  }
  _exit(code);
}

}  // namespace

RankChannel::RankChannel(int fd) : fd_(fd) {}

RankChannel::~RankChannel() {
  if (reader_.joinable()) {
    shutdown(fd_, SHUT_RD);
    reader_.join();
  }
}

void RankChannel::Start() {
  reader_ = std::thread([this] { ReadLoop(); });
}

void RankChannel::ReadLoop() {
  LineBuffer lines;
  std::string chunk(kReadBytes, '\0');
  bool leaving = false;
  while (true) {
    const ssize_t got = recv(fd_, chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (leaving) return;
      Leave(0, "the parent closed the socket");
    }
    if (absl::Status status = lines.Append(std::string_view(chunk.data(), got)); !status.ok()) {
      Leave(3, MessageOf(status));
    }
    std::string line;
    while (lines.Next(&line)) {
      absl::StatusOr<RankCommand> command = DecodeCommand(line);
      if (!command.ok()) {
        Send(RankFailed{0, command.status()});
        Leave(3, MessageOf(command.status()));
      }
      if (const auto* cancel = std::get_if<RankCancel>(&*command)) {
        if (cancel->id > cancelled_.load()) cancelled_.store(cancel->id);
        continue;
      }
      leaving = leaving || std::holds_alternative<RankShutdown>(*command);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (commands_.size() >= kRankCommandsMax) Leave(3, "too many commands wait");
      commands_.push_back(std::move(*command));
      arrived_.notify_one();
    }
  }
}

RankCommand RankChannel::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  arrived_.wait(lock, [this] { return !commands_.empty(); });
  RankCommand command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

void RankChannel::Send(const RankEvent& event, int64_t id) {
  absl::StatusOr<std::string> line = EncodeEvent(event);
  if (!line.ok()) {
    if (id == 0) Leave(3, MessageOf(line.status()));
    line = EncodeEvent(RankFailed{id, line.status()});
    if (!line.ok()) Leave(3, MessageOf(line.status()));
  }
  const std::lock_guard<std::mutex> lock(write_mutex_);
  size_t sent = 0;
  while (sent < line->size()) {
    const ssize_t n = send(fd_, line->data() + sent, line->size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) Leave(0, "the parent closed the socket");
    sent += static_cast<size_t>(n);
  }
}

}  // namespace assay
