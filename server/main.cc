// assayd: the coordinator.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/commands.h"
#include "server/engine/engine.h"
#include "server/flags.h"
#include "server/maintain/commands.h"
#include "server/obs/metrics.h"
#include "server/rpc/health_watch.h"
#include "server/rpc/listener_probe.h"
#include "server/rpc/server.h"
#include "storage/base/build_info.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  static const std::set<std::string> kConfiguration = {
      "FLAG_INVALID",    "LISTEN_INVALID", "TLS_INVALID",  "TOKENS_INVALID", "TOKENS_PERMISSIONS",
      "KEY_PERMISSIONS", "SIGNER_INVALID", "KEY_MISMATCH", "KEY_MISSING"};
  if (kConfiguration.count(reason) != 0) return 2;
  if (reason == "STORE_DAMAGED") return 20;
  if (reason == "STORE_VERSION") return 21;
  if (reason == "STORE_IN_USE") return 22;
  return 1;
}

constexpr int kProbeEveryMs = 5'000;
constexpr int64_t kProbeAnswerMs = 10'000;  // a busy machine's server takes its time
constexpr int kProbesMax = 3;

// Waits for SIGTERM or SIGINT, or for the parent to go away; LISTENER_LOST when nobody can reach
// the server any more.
absl::StatusOr<std::string> WaitForEnd(int signal_fd, int parent_fd, const std::string& address,
                                       bool tls) {
  pollfd fds[2] = {{signal_fd, POLLIN, 0}, {parent_fd, POLLIN, 0}};
  int unanswered = 0;
  while (true) {
    const int ready = ::poll(fds, parent_fd >= 0 ? 2 : 1, kProbeEveryMs);
    if (ready == 0)
      unanswered = rpc::ListenerAnswers(address, kProbeAnswerMs, tls) ? 0 : unanswered + 1;
    if (unanswered == kProbesMax) {
      return UnavailableError("LISTENER_LOST",
                              address +
                                  " answers no connection any more, perhaps because more were "
                                  "opened than this process may have file descriptors; start "
                                  "assayd again, with a higher ulimit -n");
    }
    if (ready <= 0) continue;
    if ((fds[0].revents & POLLIN) != 0) return "signal";
    if (parent_fd >= 0 && fds[1].revents != 0) {
      char byte = 0;
      const ssize_t n = ::read(parent_fd, &byte, 1);
      if (n == 0) return "parent has gone";
      if (n < 0 && errno != EINTR && errno != EAGAIN) return "--parent-fd cannot be read";
    }
  }
}

absl::Status Serve(const Flags& flags, int signal_fd) {
  if (::geteuid() == 0) {
    LogJson("warn",
            "assayd needs no right of root; run it as a user of its own "
            "(deploy/systemd/assayd.service does)");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto engine, Engine::Open(flags.engine));
  ASSAY_ASSIGN_OR_RETURN(
      const auto control,
      ControlServer::Start(flags.engine.data_dir, MaintenanceHandler(engine.get())));
  ASSAY_ASSIGN_OR_RETURN(const auto server, rpc::Server::Start(engine.get(), flags.server));
  std::unique_ptr<MetricsServer> metrics;
  if (!flags.metrics.empty()) {
    ASSAY_ASSIGN_OR_RETURN(metrics, MetricsServer::Start(engine.get(), flags.metrics));
  }
  auto health =
      std::make_unique<rpc::HealthWatch>([&] { return rpc::IsWell(*engine); }, server.get());
  std::string lines;
  for (const std::string& address : server->addresses()) lines.append(address).append("\n");
  if (!flags.ready_file.empty()) ASSAY_RETURN_IF_ERROR(WriteFileAtomic(flags.ready_file, lines));
  LogJson("info", "serving",
          {{"addresses", server->addresses()},
           {"data", flags.engine.data_dir},
           {"build", BuildId()},
           {"epoch", engine->Read([](const State& s) { return s.epoch; })},
           {"metrics_port", metrics ? metrics->port() : 0}});

  ASSAY_ASSIGN_OR_RETURN(const std::string why,
                         WaitForEnd(signal_fd, flags.parent_fd, server->addresses().front(),
                                    !flags.server.tls.files.empty()));
  LogJson("info", "stopping", {{"why", why}});
  health.reset();
  engine->BeginDrain();
  server->Shutdown(flags.drain_ms);
  engine->Stop();
  LogJson("info", "stopped");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "token") return TokenCommand(argc - 1, argv + 1);
  if (argc > 1 && std::string_view(argv[1]) == "key") return KeyCommand(argc - 1, argv + 1);
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (const auto code = RunMaintenance(args, DefaultDataDir())) return *code;
  const auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) {
    std::fprintf(stderr, "assayd: error [%s]: %s\n", ReasonOf(flags.status()).c_str(),
                 MessageOf(flags.status()).c_str());
    return 2;
  }
  if (flags->help) {
    std::fputs(HelpText().c_str(), stdout);
    return 0;
  }
  if (flags->version) {
    std::printf("assayd %s\n", BuildId().c_str());
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);
  rpc::RaiseDescriptorLimit();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);  // before any thread exists, so that all inherit it
  const int signal_fd = ::signalfd(-1, &set, SFD_CLOEXEC);
  const absl::Status status = Serve(*flags, signal_fd);
  if (status.ok()) return 0;
  std::string help;
  if (ReasonOf(status) == "STORE_DAMAGED") {
    help = ". assayd fsck --data " + flags->engine.data_dir +
           " names everything that is damaged and what can be repaired from the rest";
  }
  LogJson("fatal", MessageOf(status) + help, {{"reason", ReasonOf(status)}});
  return ExitCodeOf(status);
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Main(argc, argv); }
