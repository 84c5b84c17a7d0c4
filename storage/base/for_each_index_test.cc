#include "storage/base/for_each_index.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

TEST(ForEachIndex, TakesEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 16}) {
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      const absl::Status status = ForEachIndex(count, threads, [&](int64_t i) {
        ++seen.at(static_cast<size_t>(i));
        return absl::OkStatus();
      });
      EXPECT_TRUE(status.ok());
      for (const auto& times : seen) EXPECT_EQ(times, 1) << threads << " threads of " << count;
    }
  }
}

TEST(ForEachIndex, OneThreadIsTheCallers) {
  ASSERT_TRUE(ForEachIndex(5, 1, [caller = std::this_thread::get_id()](int64_t) {
                EXPECT_EQ(std::this_thread::get_id(), caller);
                return absl::OkStatus();
              }).ok());
}

TEST(ForEachIndex, OneThreadStopsAtTheFirstError) {
  int64_t last = -1;
  const absl::Status status = ForEachIndex(10, 1, [&](int64_t i) -> absl::Status {
    last = i;
    return i < 3 ? absl::OkStatus() : InvalidError("BAD_ITEM", std::to_string(i));
  });
  EXPECT_EQ(last, 3);
  EXPECT_EQ(ReasonOf(status), "BAD_ITEM");
  EXPECT_EQ(MessageOf(status), "3");
}

// Every thread meets an error at once, the lowest index the last: it still is the one told.
TEST(ForEachIndex, TheLowestFailingIndexIsTold) {
  constexpr int kThreads = 4;
  std::atomic<int> inside = 0;
  const absl::Status status = ForEachIndex(100, kThreads, [&](int64_t i) -> absl::Status {
    ++inside;
    while (inside < kThreads) std::this_thread::yield();
    if (i == 0) {
      while (inside < 2 * kThreads - 1) std::this_thread::yield();
    } else {
      ++inside;  // about to fail
    }
    return InvalidError("BAD_ITEM", std::to_string(i));
  });
  EXPECT_EQ(MessageOf(status), "0");
  EXPECT_EQ(inside, 2 * kThreads - 1) << "no item is begun after an error";
}

}  // namespace
}  // namespace assay
