// A whole Assay on this machine for the time of one command: the real assayd and assay-worker
// processes on a Unix socket.

#ifndef ASSAY_CLIENT_LIB_EMBEDDED_H_
#define ASSAY_CLIENT_LIB_EMBEDDED_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/child_process.h"
#include "client/lib/data_dir.h"

namespace assay {

struct EmbeddedOptions {
  std::string data_dir;                  // absolute
  std::string command;                   // for the lock: what this process does
  std::vector<std::string> model_roots;  // folders in which workers find models
  int workers = 1;                       // 0: a coordinator alone
  int tp = 1;                            // ranks of each worker
  int threads = 0;                       // of each rank; 0: the worker decides
  std::string program_dir;               // of assayd and assay-worker; "": that of this program
  int64_t stop_workers_ms = 8'000;       // grace of SIGTERM before SIGKILL
  int64_t stop_coordinator_ms = 10'000;
};

inline constexpr int kEmbeddedWorkersMax = 64;

// Layout of the data directory: client.lock, store/ (of assayd), worker-N/ (caches), logs/,
// assayd.sock. Everything ends with the object, and with the process, however it dies.
class EmbeddedCluster {
 public:
  // Locks the data directory and starts the coordinator; returns before it is ready.
  // DATA_DIR_IN_USE, PROGRAM_MISSING, PROGRAM_NOT_STARTED.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(const EmbeddedOptions& options);
  ~EmbeddedCluster();  // Stop

  // Starts the workers, once: when there is work for them.
  absl::Status StartWorkers();

  const std::string& address() const { return address_; }

  // OK while the coordinator and, of the workers started, at least one live; COORDINATOR_DIED or
  // WORKERS_DIED with the last lines of the log otherwise. Any thread.
  absl::Status CheckAlive();

  // Workers first, so that they give their units back; then the coordinator.
  void Stop();

  std::vector<pid_t> pids() const;

 private:
  explicit EmbeddedCluster(EmbeddedOptions options) : options_(std::move(options)) {}
  absl::Status StartCoordinator();

  const EmbeddedOptions options_;
  std::string address_, programs_, logs_;
  mutable std::mutex mutex_;
  std::unique_ptr<DataDirLock> lock_;
  std::unique_ptr<SocketPlace> socket_;
  std::unique_ptr<ChildProcess> coordinator_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_EMBEDDED_H_
