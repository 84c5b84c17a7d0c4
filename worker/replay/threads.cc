#include "worker/replay/threads.h"

#include <omp.h>

namespace assay {

ThreadPool::ThreadPool(int threads) {
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { Work(t); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::Run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
  const int outer = omp_get_max_threads();
  omp_set_num_threads(
      1);  // this thread's setting only; oneDNN must not start threads of its own here
  if (workers_.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
  } else {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      tasks_ = tasks;
      next_.store(0);
      busy_ = static_cast<int>(workers_.size());
      ++round_;
    }
    start_.notify_all();
    Take(0);
    std::unique_lock<std::mutex> lock(mutex_);
    finish_.wait(lock, [&] { return busy_ == 0; });
  }
  omp_set_num_threads(outer);
}

void ThreadPool::Take(int thread) {
  for (int64_t task = next_.fetch_add(1); task < tasks_; task = next_.fetch_add(1)) {
    (*body_)(task, thread);
  }
}

void ThreadPool::Work(int thread) {
  omp_set_num_threads(1);
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    Take(thread);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--busy_ == 0) finish_.notify_one();
  }
}

}  // namespace assay
