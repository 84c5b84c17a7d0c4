#include "tests/bench/load_pollers.h"

#include <chrono>
#include <cstdio>

#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

constexpr int64_t kWaitMs = 20'000;
constexpr uint64_t kWorkersPerConnection = 64;
constexpr int kLookMs = 100;

}  // namespace

Pollers::Pollers(const Coordinator& coordinator, Load* load, uint64_t workers) : load_(load) {
  std::shared_ptr<grpc::Channel> channel;
  for (uint64_t i = 0; i < workers; ++i) {
    if (i % kWorkersPerConnection == 0) channel = coordinator.Connect();
    auto worker = std::make_unique<Worker>();
    worker->stub = v1::WorkerService::NewStub(channel);
    v1::SynchronizeRequest& request = worker->request;
    request.set_protocol_version(1);
    request.set_build_id("bench");
    char incarnation[17];
    std::snprintf(incarnation, sizeof(incarnation), "%016x", static_cast<unsigned>(i));
    request.set_worker_id("w" + std::to_string(i));
    request.set_incarnation(incarnation);
    request.set_tp(1);
    request.set_replay_identity_json(R"({"backend":"cpu-f32","self_test":"a"})");
    request.set_capture_identity_json(R"({"engine":"fake","self_test":"b"})");
    request.set_host_json(R"({"cpu":"simulated"})");
    request.set_free_slots(1);
    request.set_wait_ms(kWaitMs);
    workers_.push_back(std::move(worker));
  }
  for (const auto& worker : workers_) Send(worker.get());
  thread_ = std::thread([this] { Loop(); });
}

Pollers::~Pollers() {
  ending_ = stop_ = true;
  thread_.join();
}

std::vector<double> Pollers::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(seconds_, {});
}

void Pollers::Send(Worker* worker) {
  worker->context = std::make_unique<grpc::ClientContext>();
  worker->response.Clear();
  worker->sent = Wall();
  worker->reader = worker->stub->AsyncSynchronize(worker->context.get(), worker->request, &queue_);
  worker->reader->Finish(&worker->response, &worker->status, worker);
}

void Pollers::Answered(Worker* worker) {
  if (!worker->status.ok()) {
    if (!ending_) Die("Synchronize failed: " + worker->status.error_message());
    worker->reader.reset();
    return;
  }
  for (const v1::ResultAck& ack : worker->response.acks()) {
    if (ack.outcome() != v1::ResultAck::ACCEPTED) Die("a result was refused: " + ack.message());
    ++accepted_;
  }
  worker->request.clear_results();
  for (const v1::Lease& lease : worker->response.start()) {
    auto* result = worker->request.add_results();
    result->set_lease_id(lease.lease_id());
    result->set_result_json(load_->ResultOf(lease.unit_json()));
    result->set_wall_ms(1);
    result->set_rank_attempts(1);
    ++granted_;
  }
  if (worker->response.start_size() > 0) {
    const std::lock_guard lock(mutex_);
    seconds_.push_back(Wall() - worker->sent);
  }
  Send(worker);
}

void Pollers::Loop() {
  bool cancelled = false;
  void* tag = nullptr;
  bool ok = false;
  while (true) {
    if (stop_ && !cancelled) {
      cancelled = true;
      for (const auto& worker : workers_) worker->context->TryCancel();
      queue_.Shutdown();
    }
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(kLookMs);
    const auto next = queue_.AsyncNext(&tag, &ok, deadline);
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    if (next == grpc::CompletionQueue::GOT_EVENT && !cancelled) Answered(static_cast<Worker*>(tag));
  }
}

}  // namespace assay::bench
