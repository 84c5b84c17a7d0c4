// Who is woken when there is work.

#include "server/engine/long_polls.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

bool Woken(LongPolls::Poll& poll) { return poll.Wait(0); }

TEST(LongPolls, AsManyAreWokenAsThereAreUnits) {
  LongPolls polls;
  const uint64_t seen = polls.offers();
  LongPolls::Poll first(&polls, seen), second(&polls, seen), third(&polls, seen);
  EXPECT_EQ(polls.waiting(), 3u);
  polls.Offer(2);
  EXPECT_TRUE(Woken(first));
  EXPECT_TRUE(Woken(second));
  EXPECT_FALSE(Woken(third));
  EXPECT_EQ(polls.waiting(), 1u);
  polls.WakeAll();
  EXPECT_TRUE(Woken(third));
}

TEST(LongPolls, OneThatTakesNothingPassesOnToThoseThatHaveNotLooked) {
  LongPolls polls;
  const uint64_t seen = polls.offers();
  LongPolls::Poll first(&polls, seen), second(&polls, seen);
  polls.Offer(1);
  LongPolls::Poll later(&polls, polls.offers());  // looked after the offer
  EXPECT_FALSE(Woken(second));
  polls.PassOn();
  EXPECT_TRUE(Woken(second));
  polls.PassOn();
  EXPECT_FALSE(Woken(later));
  EXPECT_FALSE(later.Leave());
  EXPECT_EQ(polls.waiting(), 0u);
}

TEST(LongPolls, AnOfferBetweenLookingAndWaitingIsNotMissed) {
  LongPolls polls;
  const uint64_t seen = polls.offers();
  polls.Offer(1);
  LongPolls::Poll poll(&polls, seen);
  EXPECT_TRUE(Woken(poll));
  EXPECT_TRUE(poll.Leave());
}

TEST(LongPolls, OneThatLeavesIsNotWoken) {
  LongPolls polls;
  LongPolls::Poll gone(&polls, polls.offers()), stays(&polls, polls.offers());
  EXPECT_FALSE(gone.Leave());
  polls.Offer(1);
  EXPECT_TRUE(Woken(stays));
}

}  // namespace
}  // namespace assay
