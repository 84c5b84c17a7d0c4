// What the standard health service says: SERVING while the coordinator is well, NOT_SERVING while
// it is not, and SERVING again by itself.

#ifndef ASSAY_SERVER_RPC_HEALTH_WATCH_H_
#define ASSAY_SERVER_RPC_HEALTH_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "server/engine/engine.h"
#include "server/rpc/server.h"

namespace assay::rpc {

// Whether new work is taken and what is stored can be trusted: there is room on the disk, and no
// damage was met.
bool IsWell(const Engine& engine);

class HealthWatch {
 public:
  // Asks `well` every `every_ms`. NOT_SERVING when it ends. `server` outlives the object.
  HealthWatch(std::function<bool()> well, Server* server, int64_t every_ms = 500);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

 private:
  void Loop();

  const std::function<bool()> well_;
  Server* const server_;
  const int64_t every_ms_;
  std::mutex mutex_;
  std::condition_variable cv_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_HEALTH_WATCH_H_
