// The program assay-worker: one agent, one group of ranks.

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "CLI/CLI.hpp"
#include "client/lib/channel.h"
#include "fmt/format.h"
#include "storage/base/build_info.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/agent/agent.h"
#include "worker/agent/grpc_links.h"
#include "worker/agent/host_info.h"
#include "worker/agent/log.h"

namespace assay {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct WorkerFlags {
  std::string coordinator, name, cache, backend = "auto";
  std::vector<std::string> model_roots;
  uint64_t cache_bytes = uint64_t{64} << 30;
  int tp = 1, threads = 0, parent_fd = -1;
  bool no_capture = false;
  ChannelSecurity security;
};

std::string DefaultCache() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/') {
    return JoinPath(xdg, "assay-worker");
  }
  const char* home = std::getenv("HOME");
  return JoinPath(home != nullptr ? home : "/var/cache", ".cache/assay-worker");
}

void AddFlags(CLI::App* app, WorkerFlags* flags) {
  app->set_config("--config", "", "Read flags from a file, name = value a line");
  app->add_option("--coordinator", flags->coordinator,
                  "Address of assayd: HOST:PORT, unix:PATH or the path of a socket")
      ->required();
  app->add_option("--token-file", flags->security.token_file,
                  "File with this worker's token ($ASSAY_TOKEN_FILE)");
  app->add_option("--tls-ca", flags->security.tls_ca,
                  "CAs (PEM) of the coordinator; needed beyond this machine ($ASSAY_TLS_CA)");
  app->add_option("--tls-cert", flags->security.tls_cert,
                  "This worker's certificate, PEM ($ASSAY_TLS_CERT)");
  app->add_option("--tls-key", flags->security.tls_key, "Its private key, PEM ($ASSAY_TLS_KEY)");
  app->add_option("--model-root", flags->model_roots,
                  "Folder with models (DIR/FILE or DIR/NAME/FILE); may be given several times");
  app->add_option("--cache", flags->cache, "Folder for cached inputs and work files")
      ->default_str(DefaultCache());
  app->add_option("--cache-bytes", flags->cache_bytes, "Most bytes of cached inputs")
      ->capture_default_str();
  app->add_option("--tp", flags->tp, "Ranks that execute a unit together")
      ->check(CLI::IsMember({1, 2, 4, 8}))
      ->capture_default_str();
  app->add_option("--threads", flags->threads,
                  "Compute threads of each rank; 0: CPUs of the affinity mask / ranks")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app->add_option("--name", flags->name, "Stable name of this worker, [A-Za-z0-9._-]+")
      ->default_str(HostName());
  app->add_option("--backend", flags->backend, "Collectives: auto, gloo or nccl")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}))
      ->capture_default_str();
  app->add_option("--parent-fd", flags->parent_fd,
                  "Exit when this inherited descriptor reaches its end: the parent is gone");
  app->add_flag("--no-capture", flags->no_capture, "Do not load the capture engine: replays only");
  app->footer(
      "Examples:\n"
      "  assay-worker --coordinator 127.0.0.1:7070 --model-root /models\n"
      "  assay-worker --coordinator 127.0.0.1:7070 --model-root /models --tp 2 --threads 8 "
      "--name gpu-box-1");
}

// One worker per cache folder. The descriptor stays open until the process ends.
absl::Status LockCache(const std::string& cache) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(cache, 0700));
  const std::string path = JoinPath(cache, "lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoError(errno, fmt::format("cannot open {}", path));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return PreconditionError("CACHE_IN_USE",
                           fmt::format("another assay-worker uses the cache {}; give this one its "
                                       "own --cache and --name",
                                       cache));
}

// Ends the process as soon as the parent is gone: its ranks notice and follow.
void WatchParent(int fd) {
  std::thread([fd] {
    char byte;
    ssize_t n;
    do {
      n = read(fd, &byte, 1);
    } while (n > 0 || (n < 0 && errno == EINTR));
    LogLine("info", "the parent process is gone; leaving");
    _exit(0);
  }).detach();
}

// The agent that signals concern; null before it exists and after it has ended. Held while the
// agent is used: a signal that comes when the agent ends by itself must not use what is left of it.
std::mutex running_mutex;
Agent* running_agent = nullptr;

void SetRunningAgent(Agent* agent) {
  const std::lock_guard lock(running_mutex);
  running_agent = agent;
}

// SIGTERM and SIGINT, blocked in every thread, stop the agent; the second one ends the process.
void WatchSignals(const sigset_t& signals) {
  std::thread([signals] {
    int number = 0;
    sigwait(&signals, &number);
    LogLine("info", fmt::format("signal {}: finishing or giving back the unit", number));
    {
      const std::lock_guard lock(running_mutex);
      if (running_agent == nullptr) _exit(128 + number);
      running_agent->Stop();
    }
    sigwait(&signals, &number);
    _exit(128 + number);
  }).detach();
}

absl::Status RunWorker(const WorkerFlags& flags) {
  const ChannelSecurity security = WithEnvironment(flags.security);
  ASSAY_ASSIGN_OR_RETURN(const auto control, OpenChannel(flags.coordinator, security));
  ASSAY_ASSIGN_OR_RETURN(const auto bulk, OpenChannel(flags.coordinator, security));
  ASSAY_RETURN_IF_ERROR(LockCache(flags.cache));
  const std::string work_dir = JoinPath(flags.cache, "work");
  ASSAY_RETURN_IF_ERROR(RemoveTree(work_dir));
  ASSAY_ASSIGN_OR_RETURN(const auto cache,
                         BlobCache::Open(JoinPath(flags.cache, "blobs"), flags.cache_bytes));
  ASSAY_ASSIGN_OR_RETURN(const auto digests,
                         DigestCache::Open(JoinPath(flags.cache, "digests.json")));

  GrpcCoordinatorLink link(control, flags.coordinator);
  GrpcBlobStoreLink store(bulk, flags.coordinator);
  ModelResolver models(flags.model_roots, JoinPath(flags.cache, "models"), digests.get(),
                       cache.get(), &store);

  GroupOptions group;
  group.size = flags.tp;
  group.threads = flags.threads;
  group.work_dir = JoinPath(work_dir, "group");
  group.backend = flags.backend;
  group.capture = !flags.no_capture;
  group.interrupted = [] {
    const std::lock_guard lock(running_mutex);
    return running_agent != nullptr && running_agent->giving_up();
  };
  const auto runner = MakeGroupRunner(group);
  LeaseWorker worker({&models, cache.get(), &store}, runner.get(), Clock::Real(), work_dir);

  AgentOptions options;
  options.name = flags.name;
  options.incarnation = RandomHex();
  options.tp = flags.tp;
  const int threads =
      flags.threads > 0 ? flags.threads : std::max(1, AffinityCpus() / std::max(1, flags.tp));
  options.host_json = HostInfo(flags.tp, threads, flags.backend).dump();
  Agent agent(options, Clock::Real(), &link, runner.get(), &worker);
  SetRunningAgent(&agent);
  const absl::Status status = agent.Run();
  SetRunningAgent(nullptr);
  return status;
}

int Main(int argc, char** argv) {
  WorkerFlags flags;
  CLI::App app("The agent of one group of ranks: takes units from an Assay coordinator.",
               "assay-worker");
  app.set_version_flag("--version", "assay-worker " + BuildId());
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (flags.cache.empty()) flags.cache = DefaultCache();
  if (flags.name.empty()) flags.name = HostName();

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  WatchSignals(signals);
  std::signal(SIGPIPE, SIG_IGN);
  if (flags.parent_fd >= 0) {
    fcntl(flags.parent_fd, F_SETFD, FD_CLOEXEC);  // the ranks must not keep it open
    WatchParent(flags.parent_fd);
  }
  LogLine("info", "started", Json{{"build_id", BuildId()}, {"name", flags.name}});
  const absl::Status status = RunWorker(flags);
  if (!status.ok()) {
    LogLine("error", "stopped", LogFields(status));
    const std::string reason = ReasonOf(status);
    return reason == "ADDRESS_INVALID" || reason == "TLS_INVALID" || reason == "TLS_REQUIRED" ||
                   reason == "TOKEN_FILE_INVALID"
               ? kExitUsage
               : kExitFailed;
  }
  LogLine("info", "stopped");
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Main(argc, argv); }
