// Many simulated workers on one thread: each keeps one Synchronize in flight, takes what it is
// given and delivers the result with its next call.

#ifndef ASSAY_TESTS_BENCH_LOAD_POLLERS_H_
#define ASSAY_TESTS_BENCH_LOAD_POLLERS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "assay/v1/worker.grpc.pb.h"
#include "tests/bench/coordinator.h"
#include "tests/bench/load_setup.h"

namespace assay::bench {

class Pollers {
 public:
  // Begins polling. Both must outlive this object. A refused result ends the program.
  Pollers(const Coordinator& coordinator, Load* load, uint64_t workers);
  ~Pollers();  // ends all calls
  Pollers(const Pollers&) = delete;
  Pollers& operator=(const Pollers&) = delete;

  uint64_t granted() const { return granted_; }    // leases so far
  uint64_t accepted() const { return accepted_; }  // results so far
  // Seconds of the calls that were answered with work since the last Take.
  std::vector<double> Take();
  // From now on a worker whose call fails rests: the coordinator is about to go.
  void ExpectTheEnd() { ending_ = true; }

 private:
  struct Worker {
    v1::SynchronizeRequest request;
    v1::SynchronizeResponse response;
    std::unique_ptr<v1::WorkerService::Stub> stub;
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::SynchronizeResponse>> reader;
    grpc::Status status;
    double sent = 0;
  };
  void Send(Worker* worker);
  void Answered(Worker* worker);
  void Loop();

  Load* load_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<uint64_t> granted_{0}, accepted_{0};
  std::atomic<bool> ending_{false}, stop_{false};
  std::mutex mutex_;
  std::vector<double> seconds_;
  std::thread thread_;
};

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_LOAD_POLLERS_H_
