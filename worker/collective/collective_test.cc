// Every backend moves the right bytes, and none hangs when a peer is gone.

#include "worker/collective/collective.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

std::string FreshFolder() {
  std::string path = ::testing::TempDir() + "assay-collective-XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

using Ranks = std::vector<std::unique_ptr<Collective>>;

Ranks MakeGloo(int size, int64_t timeout_ms, bool through_memory) {
  const std::string folder = FreshFolder();
  Ranks ranks(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      CollectiveOptions options;
      options.rank = r;
      options.size = size;
      options.rendezvous = folder;
      options.timeout_ms = timeout_ms;
      options.backend = "gloo";
      options.through_memory = through_memory;
      auto made = CreateCollective(options);
      EXPECT_TRUE(made.ok()) << made.status();
      if (made.ok()) ranks[r] = std::move(*made);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(RemoveTree(folder).ok());
  return ranks;
}

void OnEveryRank(Ranks& ranks, const std::function<void(Collective&)>& body) {
  std::vector<std::thread> threads;
  for (auto& rank : ranks) threads.emplace_back([&] { body(*rank); });
  for (std::thread& t : threads) t.join();
}

// The byte that rank `from` sends to rank `to` at place i.
uint8_t ByteOf(int from, int to, size_t i) {
  return static_cast<uint8_t>(from * 37 + to * 11 + i * 3);
}

void CheckAllOperations(Collective& c) {
  const int n = c.size(), me = c.rank();
  const auto gathered_from = [](int r) { return static_cast<size_t>(r == 1 ? 0 : 3 + 1000 * r); };

  std::vector<uint8_t> send(5), recv(5 * n);
  for (size_t i = 0; i < send.size(); ++i) send[i] = ByteOf(me, 0, i);
  ASSERT_TRUE(c.AllGather(send, recv).ok());
  for (int r = 0; r < n; ++r) {
    for (size_t i = 0; i < 5; ++i) ASSERT_EQ(recv[r * 5 + i], ByteOf(r, 0, i));
  }

  std::vector<uint64_t> counts(n);
  uint64_t total = 0;
  for (int r = 0; r < n; ++r) total += counts[r] = gathered_from(r);
  send.resize(counts[me]);
  recv.assign(total, 0);
  for (size_t i = 0; i < send.size(); ++i) send[i] = ByteOf(me, 1, i);
  ASSERT_TRUE(c.AllGatherV(send, counts, recv).ok());
  size_t at = 0;
  for (int r = 0; r < n; ++r) {
    for (size_t i = 0; i < counts[r]; ++i) ASSERT_EQ(recv[at++], ByteOf(r, 1, i));
  }

  // Rank a sends 7a + b bytes to rank b, and nothing where (a + b) is odd.
  const auto moved = [](int a, int b) {
    return static_cast<uint64_t>((a + b) % 2 ? 0 : 7 * a + b);
  };
  std::vector<uint64_t> out(n), in(n);
  std::vector<uint8_t> payload;
  uint64_t incoming = 0;
  for (int r = 0; r < n; ++r) {
    out[r] = moved(me, r);
    incoming += in[r] = moved(r, me);
    for (size_t i = 0; i < out[r]; ++i) payload.push_back(ByteOf(me, r, i));
  }
  std::vector<uint8_t> arrived(incoming);
  ASSERT_TRUE(c.AllToAllV(payload, out, arrived, in).ok());
  at = 0;
  for (int r = 0; r < n; ++r) {
    for (size_t i = 0; i < in[r]; ++i) ASSERT_EQ(arrived[at++], ByteOf(r, me, i));
  }
  ASSERT_TRUE(c.Barrier().ok());
}

TEST(Collective, SingleMovesItsOwnBytes) {
  auto single = CreateCollective({});
  ASSERT_TRUE(single.ok());
  EXPECT_EQ((*single)->name(), "single");
  CheckAllOperations(**single);
}

TEST(Collective, ThreadsMoveBytes) {
  for (const int size : {1, 2, 3, 8}) {
    Ranks ranks = CreateThreadCollectives(size, 20'000);
    OnEveryRank(ranks, [](Collective& c) {
      for (int i = 0; i < 20; ++i) CheckAllOperations(c);
    });
  }
}

TEST(Collective, GlooMovesBytes) {
  for (const int size : {2, 4}) {
    for (const bool through_memory : {false, true}) {
      Ranks ranks = MakeGloo(size, 20'000, through_memory);
      OnEveryRank(ranks, [](Collective& c) {
        EXPECT_EQ(c.name(), "gloo");
        for (int i = 0; i < 5; ++i) CheckAllOperations(c);
      });
    }
  }
}

TEST(Collective, WrongSizesAreRefusedBeforeAnythingMoves) {
  auto single = CreateCollective({});
  ASSERT_TRUE(single.ok());
  std::vector<uint8_t> send(4), recv(5);
  EXPECT_EQ(ReasonOf((*single)->AllGather(send, recv)), "COLLECTIVE_USAGE");
  const std::vector<uint64_t> counts = {5};
  EXPECT_EQ(ReasonOf((*single)->AllGatherV(send, counts, recv)), "COLLECTIVE_USAGE");
  const std::vector<uint64_t> wide = {4, 0};
  EXPECT_EQ(ReasonOf((*single)->AllToAllV(send, wide, send, wide)), "COLLECTIVE_USAGE");
}

TEST(Collective, OptionsOutOfRangeAreRefused) {
  CollectiveOptions options;
  options.size = 0;
  EXPECT_EQ(ReasonOf(CreateCollective(options).status()), "COLLECTIVE_USAGE");
  options.size = 2;
  options.rank = 2;
  EXPECT_EQ(ReasonOf(CreateCollective(options).status()), "COLLECTIVE_USAGE");
  options.rank = 0;  // no rendezvous
  EXPECT_EQ(ReasonOf(CreateCollective(options).status()), "COLLECTIVE_USAGE");
  options.rendezvous = "/tmp";
  options.backend = "mpi";
  EXPECT_EQ(ReasonOf(CreateCollective(options).status()), "COLLECTIVE_USAGE");
}

TEST(Collective, AbsentPeerFailsTheStart) {
  CollectiveOptions options;
  options.size = 2;
  options.backend = "gloo";
  options.rendezvous = FreshFolder();
  options.timeout_ms = 300;
  EXPECT_EQ(ReasonOf(CreateCollective(options).status()), "COLLECTIVE_FAILED");
}

TEST(Collective, GoneThreadPeerIsAnError) {
  Ranks ranks = CreateThreadCollectives(2, 20'000);
  ranks[1].reset();
  EXPECT_EQ(ReasonOf(ranks[0]->Barrier()), "COLLECTIVE_FAILED");
}

TEST(Collective, SilentThreadPeerTimesOut) {
  Ranks ranks = CreateThreadCollectives(2, 50);
  EXPECT_EQ(ReasonOf(ranks[0]->Barrier()), "COLLECTIVE_FAILED");
}

TEST(Collective, SilentGlooPeerTimesOut) {
  for (const bool through_memory : {false, true}) {
    Ranks ranks = MakeGloo(2, 500, through_memory);
    std::vector<uint8_t> send(100), recv(200);
    EXPECT_EQ(ReasonOf(ranks[0]->AllGather(send, recv)), "COLLECTIVE_FAILED");
    EXPECT_EQ(ReasonOf(ranks[0]->Barrier()), "COLLECTIVE_FAILED");
  }
}

// A peer process that is killed in the middle: the survivor gets an error well before its timeout.
class KilledGlooPeer : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ThroughMemory, KilledGlooPeer, ::testing::Bool());

TEST_P(KilledGlooPeer, IsAnError) {
  const std::string folder = FreshFolder();
  CollectiveOptions options;
  options.size = 2;
  options.backend = "gloo";
  options.rendezvous = folder;
  options.timeout_ms = 60'000;
  options.through_memory = GetParam();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    options.rank = 1;
    auto made = CreateCollective(options);
    if (!made.ok() || !(*made)->Barrier().ok()) _exit(1);
    raise(SIGKILL);
  }
  auto made = CreateCollective(options);
  ASSERT_TRUE(made.ok()) << made.status();
  // Writing to the dead peer must not end this process.
  struct sigaction pipe = {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &pipe), 0);
  EXPECT_NE(pipe.sa_handler, SIG_DFL);
  EXPECT_TRUE((*made)->Barrier().ok());
  std::vector<uint8_t> send(1 << 20), recv(2 << 20);
  const absl::Status gathered = (*made)->AllGather(send, recv);
  EXPECT_EQ(ReasonOf(gathered), "COLLECTIVE_FAILED");
  EXPECT_THAT(std::string(gathered.message()), ::testing::Not(::testing::HasSubstr("timed out")));
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFSIGNALED(state));
}

}  // namespace
}  // namespace assay
