#include "worker/agent/lease_deadline.h"

#include "gtest/gtest.h"

namespace assay {
namespace {

class FakeClock : public Clock {
 public:
  int64_t UnixMillis() override { return 0; }
  int64_t MonotonicMillis() override { return now; }
  int64_t now = 50000;
};

// A lease of 30 s is worked on for 25 s.
TEST(LeaseDeadlineTest, EndsBeforeTheCoordinatorsDoes) {
  FakeClock clock;
  const LeaseDeadline deadline(&clock, clock.now, 30000);
  clock.now += 24999;
  EXPECT_TRUE(deadline.Held());
  clock.now += 1;
  EXPECT_FALSE(deadline.Held());
}

TEST(LeaseDeadlineTest, CountsFromWhenTheCallWasSentNotFromItsAnswer) {
  FakeClock clock;
  const int64_t sent = clock.now;
  clock.now += 20000;  // the answer took this long
  const LeaseDeadline deadline(&clock, sent, 30000);
  clock.now += 4999;
  EXPECT_TRUE(deadline.Held());
  clock.now += 1;
  EXPECT_FALSE(deadline.Held());
}

TEST(LeaseDeadlineTest, AnAnswerOlderThanTheLeaseGivesNothing) {
  FakeClock clock;
  const LeaseDeadline deadline(&clock, clock.now - 30000, 30000);
  EXPECT_FALSE(deadline.Held());
}

TEST(LeaseDeadlineTest, RenewalsExtendAndNeverShorten) {
  FakeClock clock;
  LeaseDeadline deadline(&clock, clock.now, 30000);
  deadline.Renew(clock.now + 10000);
  deadline.Renew(clock.now + 5000);  // answers may overtake each other
  clock.now += 34999;
  EXPECT_TRUE(deadline.Held());
  clock.now += 1;
  EXPECT_FALSE(deadline.Held());
}

TEST(LeaseDeadlineTest, LostIsFinal) {
  FakeClock clock;
  LeaseDeadline deadline(&clock, clock.now, 30000);
  deadline.Lose();
  deadline.Renew(clock.now);
  EXPECT_FALSE(deadline.Held());
}

}  // namespace
}  // namespace assay
