// Reading ahead: which contexts are read when, and where errors are told.

#include "worker/replay/row_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "storage/base/status.h"
#include "worker/collective/collective.h"

namespace assay {
namespace {

constexpr uint64_t kRows = 3, kWidth = 4, kVocab = 6;

// Contexts whose rows hold the context's number as bf16 bits.
class Source {
 public:
  explicit Source(size_t contexts) {
    head_.assign(kVocab * kWidth * 2, 0);
    ReplayHead head;
    head.id = "h";
    head.bytes = head_;
    head.vocab = kVocab;
    head.hidden = kWidth;
    plan.heads = {head};
    plan.operands = {{"ref", OperandKind::kHidden, [this](size_t i) { return Read(i); }}};
    for (size_t i = 0; i < contexts; ++i) {
      plan.contexts.push_back({static_cast<int64_t>(i), std::vector<int32_t>(kRows, 1)});
    }
    plan.comparisons = {{"c", {"ref", "h"}, {"ref", "h"}}};
  }

  absl::StatusOr<RowBlock> Read(size_t i) {
    ++reads;
    if (static_cast<int>(i) == bad) return NotFoundError("FILE_MISSING", "context is gone");
    auto values =
        std::make_shared<std::vector<uint16_t>>(kRows * kWidth, static_cast<uint16_t>(i + 1));
    const auto* bytes = reinterpret_cast<const uint8_t*>(values->data());
    return RowBlock{{bytes, values->size() * 2}, RowType::kBf16, kRows, kWidth, values};
  }

  // Whether `n` reads have been begun within ten seconds.
  bool WaitForReads(int n) const {
    for (int i = 0; i < 10'000 && reads < n; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return reads >= n;
  }

  ReplayPlan plan;
  std::atomic<int> reads{0};
  int bad = -1;

 private:
  std::vector<uint8_t> head_;
};

TEST(RowFeed, ReadsTheNextContextWhileTheCurrentOneIsInUse) {
  Source source(4);
  const auto job = ResolveJob(source.plan, 0, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  RowFeed feed(*job, ReplayBackend::kCpuBf16);
  EXPECT_EQ(source.reads, 0);
  for (int c = 0; c < 4; ++c) {
    const auto rows = feed.Next();
    ASSERT_TRUE(rows.ok()) << rows.status();
    // One ahead, never two.
    EXPECT_TRUE(source.WaitForReads(std::min(c + 2, 4)));
    EXPECT_LE(source.reads, c + 2);
    for (uint64_t row = 0; row < kRows; ++row)
      EXPECT_EQ((*rows)->HiddenBf16(0, row)[0], static_cast<uint16_t>(c + 1));
  }
}

TEST(RowFeed, AnErrorIsToldWhenItsContextHasItsTurn) {
  Source source(3);
  source.bad = 1;
  const auto job = ResolveJob(source.plan, 0, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  RowFeed feed(*job, ReplayBackend::kCpuBf16);
  EXPECT_TRUE(feed.Next().ok());
  EXPECT_EQ(ReasonOf(feed.Next().status()), "FILE_MISSING");
}

TEST(RowFeed, MayEndWhileItReads) {
  Source source(3);
  const auto job = ResolveJob(source.plan, 0, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  {
    RowFeed feed(*job, ReplayBackend::kCpuBf16);
    EXPECT_TRUE(feed.Next().ok());
  }
  EXPECT_LE(source.reads, 2);
}

}  // namespace
}  // namespace assay
