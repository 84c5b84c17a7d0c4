// A fixed set of threads that share out numbered tasks.

#ifndef ASSAY_WORKER_REPLAY_THREADS_H_
#define ASSAY_WORKER_REPLAY_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace assay {

// Tasks must not depend on which thread runs them or in which order. The caller's thread takes
// part, so a pool of one starts no thread. In its threads OpenMP (inside oneDNN) is limited to one
// thread.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(task, thread) for every task in [0, tasks), thread in [0, threads()); returns when
  // all are done.
  void Run(int64_t tasks, const std::function<void(int64_t task, int thread)>& body);

 private:
  void Work(int thread);
  void Take(int thread);

  std::mutex mutex_;  // for sleeping only
  std::condition_variable start_, finish_;
  // Of the current round; written before round_ changes, when no thread is busy.
  const std::function<void(int64_t, int)>* body_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_THREADS_H_
