// What ranks post on a board arrives, in pieces where it is long, and no rank waits for one that is
// gone.

#include "worker/collective/shared_board.h"

#include <functional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay::collective_internal {
namespace {

using Boards = std::vector<std::unique_ptr<SharedBoard>>;

constexpr int64_t kTimeoutMs = 60'000;

Boards MakeBoards(int size) {
  SharedBoard::Address address;
  Boards boards;
  boards.push_back(SharedBoard::Make(size, &address));
  for (int r = 1; r < size; ++r) boards.push_back(SharedBoard::Open(address, r, size));
  return boards;
}

void OnEveryRank(const Boards& boards, const std::function<void(int, SharedBoard&)>& body) {
  std::vector<std::thread> threads;
  for (size_t r = 0; r < boards.size(); ++r) {
    threads.emplace_back([&, r] { body(static_cast<int>(r), *boards[r]); });
  }
  for (std::thread& t : threads) t.join();
}

uint8_t ByteOf(int rank, uint32_t round, size_t i) {
  return static_cast<uint8_t>(rank * 37 + round * 101 + i * 7 + i / 1000);
}

void CheckRound(int rank, SharedBoard& board, const std::vector<uint64_t>& counts, uint32_t round) {
  std::vector<uint8_t> send(counts[rank]), want;
  for (size_t i = 0; i < send.size(); ++i) send[i] = ByteOf(rank, round, i);
  for (size_t r = 0; r < counts.size(); ++r) {
    for (size_t i = 0; i < counts[r]; ++i) want.push_back(ByteOf(static_cast<int>(r), round, i));
  }
  std::vector<uint8_t> recv(want.size());
  ASSERT_EQ(board.AllGatherV(send, counts, recv, kTimeoutMs), "");
  ASSERT_TRUE(recv == want) << "rank " << rank << ", round " << round;
}

// Three ranks on fewer cores: some are a round behind all the time.
TEST(SharedBoard, ManyRoundsArrive) {
  const Boards boards = MakeBoards(3);
  OnEveryRank(boards, [](int rank, SharedBoard& board) {
    for (uint32_t round = 0; round < 3'000; ++round) {
      CheckRound(rank, board, {40'000, round % 3, 20'000 + round % 7}, round);
    }
  });
}

TEST(SharedBoard, LongMessagesGoInPieces) {
  const Boards boards = MakeBoards(3);
  OnEveryRank(boards, [](int rank, SharedBoard& board) {
    CheckRound(rank, board, {3'000'001, 0, 262'144}, 1);
    CheckRound(rank, board, {0, 262'145, 524'288}, 2);
    CheckRound(rank, board, {0, 0, 0}, 3);
    CheckRound(rank, board, {1, 1, 1}, 4);
  });
}

TEST(SharedBoard, OnlyTheBoardThatWasMadeIsOpened) {
  SharedBoard::Address address;
  const auto made = SharedBoard::Make(2, &address);
  ASSERT_NE(made, nullptr);
  EXPECT_NE(SharedBoard::Open(address, 1, 2), nullptr);
  EXPECT_EQ(SharedBoard::Open({}, 1, 2), nullptr);
  EXPECT_EQ(SharedBoard::Open(address, 1, 3), nullptr);  // of another size
  SharedBoard::Address other = address;
  other.token[0] ^= 1;
  EXPECT_EQ(SharedBoard::Open(other, 1, 2), nullptr);
  other = address;
  other.descriptor = 0;
  EXPECT_EQ(SharedBoard::Open(other, 1, 2), nullptr);
}

TEST(SharedBoard, GonePeerIsNoticed) {
  Boards boards = MakeBoards(2);
  boards[1].reset();
  const std::vector<uint8_t> send(4);
  std::vector<uint8_t> recv(8);
  EXPECT_EQ(boards[0]->AllGatherV(send, std::vector<uint64_t>{4, 4}, recv, kTimeoutMs),
            "a peer is gone");
}

// What it posted before it went still counts.
TEST(SharedBoard, LastMessageOfAGonePeerArrives) {
  Boards boards = MakeBoards(2);
  const std::vector<uint8_t> send(4, 7);
  std::vector<uint8_t> recv(8);
  std::thread peer([&] {
    std::vector<uint8_t> theirs(8);
    EXPECT_EQ(boards[1]->AllGatherV(send, std::vector<uint64_t>{4, 4}, theirs, 1), "timed out");
    boards[1].reset();
  });
  peer.join();
  EXPECT_EQ(boards[0]->AllGatherV(send, std::vector<uint64_t>{4, 4}, recv, kTimeoutMs), "");
  EXPECT_EQ(recv, std::vector<uint8_t>(8, 7));
  EXPECT_EQ(boards[0]->AllGatherV(send, std::vector<uint64_t>{4, 4}, recv, kTimeoutMs),
            "a peer is gone");
}

TEST(SharedBoard, OtherSizesThanToldAreAnError) {
  const Boards boards = MakeBoards(2);
  OnEveryRank(boards, [](int rank, SharedBoard& board) {
    const std::vector<uint8_t> send(4);
    std::vector<uint8_t> recv(9);
    const std::vector<uint64_t> counts = {4, rank == 0 ? uint64_t{5} : uint64_t{4}};
    EXPECT_EQ(board.AllGatherV(send, counts, recv, kTimeoutMs),
              rank == 0 ? "ranks disagree on sizes" : "");
  });
}

}  // namespace
}  // namespace assay::collective_internal
