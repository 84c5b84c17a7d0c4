#include "worker/replay/threads.h"

#include <omp.h>

#include <chrono>

namespace assay {
namespace {

// How long a thread looks for its next round, or for the end of this one, before it sleeps. Tiles
// follow each other within less, and waking a thread takes about as long.
constexpr std::chrono::microseconds kLookFor{100};

template <typename Ready>
bool LookFor(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kLookFor;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

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
      next_ = 0;
      busy_ = static_cast<int>(workers_.size());
      ++round_;
    }
    start_.notify_all();
    Take(0);
    const auto done = [&] { return busy_ == 0; };
    if (!LookFor(done)) {
      std::unique_lock<std::mutex> lock(mutex_);
      finish_.wait(lock, done);
    }
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
  for (uint64_t seen = 0;; ++seen) {
    const auto called = [&] { return stop_ || round_ != seen; };
    if (!LookFor(called)) {
      std::unique_lock<std::mutex> lock(mutex_);
      start_.wait(lock, called);
    }
    if (stop_) return;
    Take(thread);
    if (busy_.fetch_sub(1) > 1) continue;
    const std::lock_guard<std::mutex> lock(mutex_);  // or the waiting thread could miss it
    finish_.notify_one();
  }
}

}  // namespace assay
