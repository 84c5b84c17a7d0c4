// Sampled re-execution: a second worker does a unit again, and a third one decides a dispute.

#include <gtest/gtest.h>

#include "server/core/apply.h"
#include "server/core/core_test_world.h"

namespace assay {
namespace {

using testing_world::FakeWorker;
using testing_world::HasNote;
using testing_world::World;

FakeWorker Named(const std::string& id) {
  FakeWorker worker;
  worker.id = id;
  return worker;
}

struct Cluster {
  Cluster() {
    w.state.options.recheck_per_mille = 1000;
    run = w.Create(w.Spec("r1", w.AddModel("ref"), {w.AddModel("cand")}));
  }
  // Works until there is nothing for it; results of replays carry `salt`.
  void Work(const FakeWorker& worker, const std::string& salt = "") {
    SyncAnswer answer = w.Sync(worker);
    while (!answer.start.empty()) {
      const Grant grant = answer.start.front();
      const UnitRow& unit = w.state.units.at(grant.unit);
      checks_by[worker.id] += unit.checks != 0;
      answer = w.Sync(worker, {w.Good(grant, unit.kind == UnitKind::kReplay ? salt : "")});
    }
  }
  size_t Evidence() const {
    return static_cast<size_t>(
        std::count_if(w.committed.begin(), w.committed.end(),
                      [](const Row& row) { return std::holds_alternative<EvidenceRow>(row); }));
  }
  World w;
  std::string run;
  FakeWorker a = Named("a"), b = Named("b"), c = Named("c");
  std::map<std::string, int> checks_by;
};

TEST(Recheck, ALoneWorkerIsBelieved) {
  Cluster cluster;
  cluster.Work(cluster.a);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kSealing);
  EXPECT_EQ(cluster.w.state.counters.rechecks_impossible, 6u);
}

TEST(Recheck, ASecondWorkerDoesEverythingAgainBeforeAnythingIsSealed) {
  Cluster cluster;
  cluster.w.Sync(cluster.b, {}, {}, 0);
  cluster.Work(cluster.a);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kRunning);
  EXPECT_EQ(cluster.checks_by["a"], 0);
  cluster.Work(cluster.b);
  EXPECT_EQ(cluster.checks_by["b"], 6);  // two captures of each model, two replays
  EXPECT_EQ(cluster.w.state.counters.rechecks_same, 6u);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kSealing);
  EXPECT_EQ(cluster.Evidence(), 0u);
}

TEST(Recheck, ADifferenceKeepsTheRunOpenUntilAThirdWorkerHasDecided) {
  Cluster cluster;
  cluster.w.Sync(cluster.b, {}, {}, 0);
  cluster.Work(cluster.a);
  cluster.Work(cluster.b, "lie");
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kRunning);
  EXPECT_TRUE(HasNote(cluster.w, "RECHECK_DIFFERS"));
  EXPECT_EQ(cluster.w.state.counters.rechecks_different, 2u);
  EXPECT_EQ(cluster.Evidence(), 2u);
  cluster.Work(cluster.a);
  cluster.Work(cluster.b);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kRunning) << "the two cannot decide";
  cluster.Work(cluster.c);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kSealing);
  EXPECT_TRUE(HasNote(cluster.w, "RECHECK_RESOLVED"));
}

TEST(Recheck, TwoWorkersAgainstTheAcceptedResultFailTheRunByName) {
  Cluster cluster;
  cluster.w.Sync(cluster.b, {}, {}, 0);
  cluster.Work(cluster.a, "lie");
  cluster.Work(cluster.b);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kRunning);
  cluster.Work(cluster.c);
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kFailed);
  const Fault& error = cluster.w.state.runs.at(cluster.run).error;
  EXPECT_EQ(error.reason, "RESULT_DISPUTED");
  EXPECT_NE(error.message.find("workers/a"), std::string::npos);
}

TEST(Recheck, ADisputeThatNobodyDecidesEndsByName) {
  Cluster cluster;
  cluster.w.Sync(cluster.b, {}, {}, 0);
  cluster.Work(cluster.a);
  cluster.Work(cluster.b, "lie");
  for (int i = 0; i < 70; ++i) {
    cluster.w.now.mono_ms += 1'000;
    cluster.w.Sync(cluster.a);
    cluster.w.Sync(cluster.b);
    cluster.w.Do(Tick{});
  }
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kFailed);
  EXPECT_EQ(cluster.w.state.runs.at(cluster.run).error.reason, "RESULT_DISPUTED");
}

TEST(Recheck, ACheckWhoseOtherWorkerHasGoneIsDropped) {
  Cluster cluster;
  cluster.w.Sync(cluster.b, {}, {}, 0);
  cluster.Work(cluster.a);
  for (int i = 0; i < 120; ++i) {
    cluster.w.now.mono_ms += 1'000;
    cluster.w.Sync(cluster.a);
    cluster.w.Do(Tick{});
  }
  EXPECT_TRUE(HasNote(cluster.w, "RECHECK_DROPPED"));
  EXPECT_EQ(cluster.w.StateOf(cluster.run), RunState::kSealing);
}

}  // namespace
}  // namespace assay
