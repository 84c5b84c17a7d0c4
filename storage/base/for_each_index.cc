#include "storage/base/for_each_index.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace assay {

absl::Status ForEachIndex(int64_t count, int threads,
                          const std::function<absl::Status(int64_t)>& body) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  int64_t failed_at = count;
  absl::Status failed;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      const absl::Status status = body(i);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (i < failed_at) {
        failed_at = i;
        failed = status;
      }
      return;
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return failed;
}

}  // namespace assay
