// Runs that ended long ago, blobs that are gone, epochs after a restore, and clocks that jump.

#include <gtest/gtest.h>

#include "server/core/apply.h"
#include "server/core/core_test_world.h"

namespace assay {
namespace {

using testing_world::FakeWorker;
using testing_world::World;

size_t SerialsInUse(const State& s) { return s.runs.size() + s.units.size(); }

TEST(Expire, ARunWithoutASealGoesWithItsUnitsAndRequestAndTheCountsAddUp) {
  World w;
  const std::string model = w.AddModel("m");
  const std::string run = w.Create(w.Spec("r1", model, {model}));
  const std::string other = w.Create(w.Spec("r2", model, {model}));
  w.Do(CancelRun{run});
  const int64_t ended = w.state.runs.at(run).end_ms;
  EXPECT_TRUE(ExpiredRuns(w.state, ended).empty());
  const auto expired = ExpiredRuns(w.state, ended + 1);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_TRUE(expired[0].whole);
  EventRow event;
  event.run = run;
  event.revision = 1;
  EventRow foreign = event;
  foreign.run = other;
  const Outcome gone = w.Do(ExpireRuns{ended + 1, {run, other}, {event, foreign}});
  EXPECT_EQ(w.state.runs.count(run), 0u);
  EXPECT_EQ(w.state.runs.count(other), 1u);
  EXPECT_EQ(w.state.requests.size(), 1u);
  EXPECT_EQ(w.state.meta.next_serial - 1, SerialsInUse(w.state) + w.state.meta.removed_serials);
  EXPECT_EQ(w.state.meta.removed_revisions, 1u);
  size_t events = 0;
  for (const Row& row : gone.removed) events += std::holds_alternative<EventRow>(row);
  EXPECT_EQ(events, 1u);
  // The same request makes the run anew.
  EXPECT_EQ(w.Create(w.Spec("r1", model, {model})), run);
}

TEST(Expire, ARunThatASealNamesStays) {
  World w;
  const std::string model = w.AddModel("m");
  const std::string run = w.Create(w.Spec("r1", model, {model}));
  w.Do(CancelRun{run});
  w.state.reports["x"].run = run;
  for (const ExpiredRun& expired : ExpiredRuns(w.state, INT64_MAX)) EXPECT_FALSE(expired.whole);
}

TEST(Expire, ARunThatHasNotEndedStays) {
  World w;
  const std::string model = w.AddModel("m");
  const std::string run = w.Create(w.Spec("r1", model, {model}));
  w.Do(ExpireRuns{INT64_MAX, {run}, {}});
  EXPECT_EQ(w.state.runs.count(run), 1u);
}

TEST(Restore, EpochsOfBeforeDoNotComeAgain) {
  World w;
  const uint64_t before = w.state.epoch;
  w.Do(Start{"store", 1000});
  EXPECT_EQ(w.state.epoch, before + 1000);
  EXPECT_EQ(w.state.meta.epoch, w.state.epoch);
}

// The wall clock is for people: a step in either direction ends no lease, loses no run and does not
// keep a lost lease alive.
TEST(ClockStep, LeasesAndWaitsFollowTheMonotonicClockAlone) {
  for (const int64_t step : {int64_t{-3'600'000}, int64_t{3'600'000}, int64_t{-315'360'000'000},
                             int64_t{315'360'000'000}}) {
    World w;
    const std::string model = w.AddModel("m");
    const std::string run = w.Create(w.Spec("r1", model, {model}));
    FakeWorker worker;
    const SyncAnswer answer = w.Sync(worker);
    ASSERT_EQ(answer.start.size(), 1u);
    const std::string lease = answer.start[0].lease;
    w.now.unix_ms += step;
    w.Do(Tick{});
    EXPECT_EQ(w.state.leases.count(lease), 1u) << step;
    EXPECT_FALSE(IsTerminal(w.StateOf(run))) << step;
    w.now.mono_ms += w.state.options.lease_ms + 1;
    w.Do(Tick{});
    EXPECT_EQ(w.state.leases.count(lease), 0u) << step;
    EXPECT_EQ(w.Sync(worker, {w.Good(answer.start[0])}).acks.at(0).kind, AckKind::kStale) << step;
    EXPECT_EQ(w.state.counters.results_fenced, 1u) << step;
  }
}

}  // namespace
}  // namespace assay
