#include "server/rpc/health_watch.h"

#include <chrono>
#include <utility>

namespace assay::rpc {

bool IsWell(const Engine& engine) { return !engine.disk_low() && !engine.catalogue().damaged(); }

HealthWatch::HealthWatch(std::function<bool()> well, Server* server, int64_t every_ms)
    : well_(std::move(well)), server_(server), every_ms_(every_ms), thread_([this] { Loop(); }) {}

HealthWatch::~HealthWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  cv_.notify_all();
  thread_.join();
  server_->SetServing(false);
}

void HealthWatch::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    server_->SetServing(well_());
    cv_.wait_for(lock, std::chrono::milliseconds(every_ms_), [this] { return stop_; });
  }
}

}  // namespace assay::rpc
