// Workers, leases and fencing in the coordinator's core.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/core/apply.h"
#include "server/core/core_test_world.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing_world::Count;
using testing_world::FakeWorker;
using testing_world::HasNote;
using testing_world::LastReason;
using testing_world::World;

TEST(Core, AModelThatAWorkerLacksIsNeverOfferedToItAgain) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker a, b;
  b.id = "w1";
  w.Sync(b, {}, {}, 0);
  SyncAnswer answer = w.Sync(a);
  answer = w.Sync(a, {World::Bad(answer.start.at(0), "MODEL_NOT_HERE", false)});
  EXPECT_TRUE(answer.start.empty());
  EXPECT_EQ(w.state.units.begin()->second.failures, 0);
  answer = w.Sync(b);
  ASSERT_EQ(answer.start.size(), 1u);
  // Nobody has it: the run waits as long as is said, then fails by name.
  w.Sync(b, {World::Bad(answer.start[0], "MODEL_NOT_HERE", false)});
  w.Do(Tick{});
  w.now.mono_ms += 4'999;
  w.Sync(a);
  w.Sync(b);
  w.Do(Tick{});
  EXPECT_EQ(w.StateOf(run), RunState::kRunning);
  w.now.mono_ms += 1;
  w.Do(Tick{});
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).error.reason, "MODEL_UNAVAILABLE");
}

TEST(Core, AWorkerWithOtherKernelsGetsNoUnitOfTheRun) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker one, two;
  two.id = "w1";
  two.replay = R"({"kernels":"other"})";
  two.capture = R"({"kernels":"other"})";
  // Alone until its first replay unit, which pins the run's kernels.
  SyncAnswer answer = w.Sync(one);
  while (!answer.start.empty() &&
         w.state.units.at(answer.start[0].unit).kind != UnitKind::kReplay) {
    answer = w.Sync(one, {w.Good(answer.start[0])});
  }
  ASSERT_FALSE(answer.start.empty());
  EXPECT_EQ(w.state.runs.at(run).replay_identity_json, one.replay);
  // Captures, repeats and replays are left: all of them belong to the first one's kernels.
  EXPECT_FALSE(w.state.ready_units.empty());
  EXPECT_TRUE(w.Sync(two, {}, {}, 16).start.empty());
  EXPECT_TRUE(HasNote(w, "WORKER_IDENTITY_DIFFERS"));
  EXPECT_FALSE(w.Sync(one, {}, {answer.start[0].lease}, 16).start.empty());
}

TEST(Core, AnExpiredLeaseIsGivenAgainAndTheLateResultIsFenced) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker a, b;
  b.id = "w1";
  const Grant first = w.Sync(a).start.at(0);
  w.now.mono_ms += 30'001;
  w.Sync(b, {}, {}, 0);
  w.Do(Tick{});
  const Grant second = w.Sync(b).start.at(0);
  EXPECT_EQ(second.unit, first.unit);
  EXPECT_NE(second.lease, first.lease);
  // Before the second is done the first comes back: refused and counted.
  EXPECT_EQ(w.Sync(a, {w.Good(first)}, {}, 0).acks.at(0).kind, AckKind::kStale);
  EXPECT_EQ(w.state.counters.results_fenced, 1u);
  EXPECT_EQ(w.Sync(b, {w.Good(second)}, {}, 0).acks.at(0).kind, AckKind::kAccepted);
  // After it: the same result is a duplicate, another one is kept as evidence.
  EXPECT_EQ(w.Sync(a, {w.Good(first)}, {}, 0).acks.at(0).kind, AckKind::kDuplicate);
  LeaseResult different = w.Good(first);
  different.result_json = R"({"facts":{},"head":{}})";
  const std::string before = w.state.units.at(first.unit).result_sha256;
  EXPECT_EQ(w.Sync(a, {different}, {}, 0).acks.at(0).kind, AckKind::kDifferent);
  EXPECT_EQ(w.state.units.at(first.unit).result_sha256, before);
  EXPECT_EQ(w.state.counters.results_different, 1u);
  EXPECT_TRUE(std::any_of(w.committed.begin(), w.committed.end(),
                          [](const Row& row) { return std::holds_alternative<EvidenceRow>(row); }));
}

TEST(Core, AResultOnAnotherWorkersLeaseIsFenced) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker holder, other;
  other.id = "w1";
  const Grant grant = w.Sync(holder).start.at(0);
  EXPECT_EQ(w.Sync(other, {w.Good(grant)}, {}, 0).acks.at(0).kind, AckKind::kStale);
  EXPECT_EQ(w.Sync(other, {World::Bad(grant, "RANK_DIED", false)}, {}, 0).acks.at(0).kind,
            AckKind::kStale);
  EXPECT_EQ(w.state.units.at(grant.unit).state, UnitState::kLeased);
  EXPECT_EQ(w.Sync(holder, {w.Good(grant)}, {}, 0).acks.at(0).kind, AckKind::kAccepted);
}

// A unit that ends every worker that takes it (for want of memory, say) must not go round for ever.
TEST(Core, AUnitWhoseWorkersAreLostAgainAndAgainIsGivenUpByName) {
  World w;
  w.state.options.losses_max = 4;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  uint64_t unit = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(w.StateOf(run), RunState::kFailed);
    FakeWorker worker;
    worker.incarnation +=
        std::to_string(i);  // started again: what the earlier process held is lost
    const Grant grant = w.Sync(worker).start.at(0);
    unit = grant.unit;
    if (i % 2 == 0) continue;
    w.now.mono_ms += 30'001;  // silent
    w.Do(Tick{});
  }
  EXPECT_EQ(w.state.units.at(unit).state, UnitState::kPoisoned);
  EXPECT_EQ(w.state.units.at(unit).error.reason, "LEASES_LOST");
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_TRUE(w.state.leases.empty());
  // Asked for again it is tried again.
  FakeWorker good;
  const std::string again = w.Create(w.Spec("r2", ref, {ref}));
  w.WorkAll(good);
  EXPECT_EQ(w.StateOf(again), RunState::kSealing);
}

TEST(Core, RenewalKeepsALeaseAndALeaseTheWorkerDoesNotListIsLost) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  const Grant first = w.Sync({}).start.at(0);
  for (int i = 0; i < 5; ++i) {
    w.now.mono_ms += 20'000;
    EXPECT_THAT(w.Sync({}, {}, {first.lease}, 0).renewed, ElementsAre(first.lease));
    w.Do(Tick{});
  }
  // The answer with this lease got lost on the way: the worker says nothing about it.
  const SyncAnswer answer = w.Sync({});
  ASSERT_EQ(answer.start.size(), 1u);
  EXPECT_EQ(answer.start[0].unit, first.unit);
  EXPECT_NE(answer.start[0].lease, first.lease);
  EXPECT_THAT(w.Sync({}, {}, {first.lease, answer.start[0].lease}, 0).cancel,
              ElementsAre(first.lease));
}

TEST(Core, ANewIncarnationTakesOverAndTheOldOneIsSentAway) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker old_process, new_process;
  new_process.incarnation = "0000000000000002";
  const Grant first = w.Sync(old_process).start.at(0);
  const Grant second = w.Sync(new_process).start.at(0);
  EXPECT_EQ(first.unit, second.unit);
  EXPECT_EQ(ReasonOf(w.TrySync(old_process).status), "WORKER_REPLACED");
}

TEST(Core, ARestartVoidsOldLeasesAndEpochsGrow) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  const Grant first = w.Sync({}).start.at(0);
  const uint64_t epoch = w.state.epoch;
  // A new process: only committed rows survive.
  State reborn;
  reborn.options = w.state.options;
  for (const Row& row : w.committed) reborn.Absorb(row);
  w.state = std::move(reborn);
  w.Do(Start{"ignored"});
  EXPECT_GT(w.state.epoch, epoch);
  EXPECT_EQ(w.state.meta.store_id, "store");
  const SyncAnswer answer = w.Sync({}, {w.Good(first)});
  EXPECT_EQ(answer.acks.at(0).kind, AckKind::kStale);
  ASSERT_EQ(answer.start.size(), 1u);
  w.Sync({}, {w.Good(answer.start[0])}, {}, 0);
  w.WorkAll({});
  w.SealAll();
  EXPECT_EQ(w.StateOf(run), RunState::kSucceeded);
}

TEST(Core, AUnitIsPoisonedAfterFailuresOnDifferentWorkersWherePossible) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker a, b;
  b.id = "w1";
  w.Sync(b, {}, {}, 0);
  Grant grant = w.Sync(a).start.at(0);
  EXPECT_TRUE(
      w.Sync(a, {World::Bad(grant, "RANK_DIED", true)}).start.empty());  // b has not tried it
  grant = w.Sync(b).start.at(0);
  EXPECT_EQ(w.state.units.at(grant.unit).attempt, 2);
  w.Sync(b, {World::Bad(grant, "RANK_DIED", true)}, {}, 0);
  grant = w.Sync(a).start.at(0);  // both have failed: anybody may
  w.Sync(a, {World::Bad(grant, "RANK_DIED", true)}, {}, 0);
  EXPECT_EQ(w.state.units.at(grant.unit).state, UnitState::kPoisoned);
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).error.reason, "RANK_DIED");
}

TEST(Core, AResultThatDoesNotFitTheUnitIsRefused) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  Grant grant = w.Sync({}).start.at(0);
  grant = w.Sync({}, {w.Good(grant)}).start.at(0);
  ASSERT_EQ(w.state.units.at(grant.unit).kind, UnitKind::kCapture);
  Json json = ParseJson(w.ResultOf(w.state.units.at(grant.unit)), "").value();
  json["files"].erase(0);
  LeaseResult result = w.Good(grant);
  result.result_json = json.dump();
  SyncAnswer answer = w.Sync({}, {result});
  EXPECT_EQ(answer.acks.at(0).kind, AckKind::kInvalid);
  EXPECT_TRUE(w.state.files.empty() || w.state.files.begin()->second[0].empty());
  result = w.Good(answer.start.at(0));
  result.vetting = {"INVALID_ARGUMENT", "RESULT_BLOB_MISSING", "not pushed"};
  EXPECT_EQ(w.Sync({}, {result}, {}, 0).acks.at(0).kind, AckKind::kInvalid);
}

TEST(CoreLease, AFullDiskOfAWorkerIsSaidToBeThatWorkers) {
  World w;
  const std::string model = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", model, {model}));
  const FakeWorker worker;
  for (int64_t i = 0; i < w.state.options.failures_max; ++i) {
    const SyncAnswer answer = w.Sync(worker);
    ASSERT_EQ(answer.start.size(), 1u);
    w.Sync(worker, {World::Bad(answer.start[0], "DISK_FULL", true)}, {}, 0);
  }
  EXPECT_EQ(w.state.runs.at(run).error.reason, "DISK_FULL");
  EXPECT_NE(w.state.runs.at(run).error.message.find("workers/w0: it went wrong"),
            std::string::npos);
}

}  // namespace
}  // namespace assay
