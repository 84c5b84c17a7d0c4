#include "client/lib/embedded.h"

#include <algorithm>
#include <thread>

#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/group/group.h"

namespace assay {

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(
    const EmbeddedOptions& options) {
  std::unique_ptr<EmbeddedCluster> cluster(new EmbeddedCluster(options));
  ASSAY_RETURN_IF_ERROR(cluster->StartCoordinator());
  return cluster;
}

absl::Status EmbeddedCluster::StartCoordinator() {
  ASSAY_ASSIGN_OR_RETURN(lock_, DataDirLock::Acquire(options_.data_dir, options_.command));
  ASSAY_ASSIGN_OR_RETURN(socket_, SocketPlace::Make(options_.data_dir));
  address_ = "unix:" + socket_->path();
  programs_ = options_.program_dir.empty() ? ProgramFolder() : options_.program_dir;
  logs_ = JoinPath(options_.data_dir, "logs");
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(logs_));
  ASSAY_ASSIGN_OR_RETURN(
      coordinator_,
      ChildProcess::Start(JoinPath(programs_, "assayd"),
                          {"--data", JoinPath(options_.data_dir, "store"), "--listen", address_},
                          JoinPath(logs_, "assayd.log")));
  return absl::OkStatus();
}

absl::Status EmbeddedCluster::StartWorkers() {
  const std::lock_guard lock(mutex_);
  if (!workers_.empty()) return absl::OkStatus();
  for (int i = 0; i < options_.workers; ++i) {
    const std::string name = fmt::format("worker-{}", i);
    std::vector<std::string> arguments = {"--coordinator", address_,
                                          "--cache",       JoinPath(options_.data_dir, name),
                                          "--name",        "local-" + name,
                                          "--tp",          std::to_string(options_.tp),
                                          "--threads",     std::to_string(options_.threads)};
    for (const std::string& root : options_.model_roots) {
      arguments.push_back("--model-root");
      arguments.push_back(root);
    }
    ASSAY_ASSIGN_OR_RETURN(
        std::unique_ptr<ChildProcess> worker,
        ChildProcess::Start(JoinPath(programs_, "assay-worker"), std::move(arguments),
                            JoinPath(logs_, name + ".log")));
    workers_.push_back(std::move(worker));
  }
  return absl::OkStatus();
}

EmbeddedCluster::~EmbeddedCluster() { Stop(); }

absl::Status EmbeddedCluster::CheckAlive() {
  const std::lock_guard lock(mutex_);
  if (coordinator_ != nullptr && !coordinator_->Alive()) {
    return InternalError("COORDINATOR_DIED",
                         fmt::format("the coordinator is gone: {}", coordinator_->Obituary()));
  }
  if (workers_.empty()) return absl::OkStatus();
  const bool any = std::any_of(workers_.begin(), workers_.end(),
                               [](const auto& worker) { return worker->Alive(); });
  if (any) return absl::OkStatus();
  return InternalError("WORKERS_DIED",
                       fmt::format("no worker is left: {}", workers_.front()->Obituary()));
}

void EmbeddedCluster::Stop() {
  const std::lock_guard lock(mutex_);
  std::vector<std::thread> stops;
  for (const auto& worker : workers_) {
    stops.emplace_back([&] { worker->Stop(options_.stop_workers_ms); });
  }
  for (std::thread& stop : stops) stop.join();
  if (coordinator_ != nullptr) coordinator_->Stop(options_.stop_coordinator_ms);
}

std::vector<pid_t> EmbeddedCluster::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> pids;
  if (coordinator_ != nullptr) pids.push_back(coordinator_->pid());
  for (const auto& worker : workers_) pids.push_back(worker->pid());
  return pids;
}

}  // namespace assay
