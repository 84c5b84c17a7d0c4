// One replay backend for all units of a run.

#include <gtest/gtest.h>

#include "server/core/core_test_world.h"
#include "server/core/steps.h"
#include "server/core/unit_document.h"

namespace assay {
namespace {

using testing_world::FakeWorker;
using testing_world::HasNote;
using testing_world::World;

// Works until a replay unit is given, and returns its grant.
Grant NextReplay(World& w, const FakeWorker& worker, SyncAnswer answer) {
  while (!answer.start.empty() &&
         w.state.units.at(answer.start[0].unit).kind != UnitKind::kReplay) {
    answer = w.Sync(worker, {w.Good(answer.start[0])});
  }
  EXPECT_FALSE(answer.start.empty());
  return answer.start.empty() ? Grant{} : answer.start[0];
}

std::set<std::string> BackendsOfDoneReplays(const World& w) {
  std::set<std::string> out;
  for (const auto& [id, unit] : w.state.units) {
    if (unit.kind == UnitKind::kReplay && unit.state == UnitState::kDone)
      out.insert(ParseJson(unit.result_json, "result").value()["backend"].get<std::string>());
  }
  return out;
}

TEST(CoreBackend, AUnitWithLargeValuesMovesTheWholeRunToTheFallback) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  const FakeWorker worker;
  const Grant first = NextReplay(w, worker, w.Sync(worker));
  const Grant second = NextReplay(w, worker, w.Sync(worker, {w.Good(first)}));
  EXPECT_NE(first.unit, second.unit);
  EXPECT_EQ(w.state.units.at(first.unit).state, UnitState::kDone);
  EXPECT_EQ(core::UnitBackend(w.state.runs.at(run)), "auto");

  w.backend = "cpu-f32";
  w.Sync(worker, {w.Good(second)}, {}, 0);
  EXPECT_TRUE(HasNote(w, "BACKEND_MOVED"));
  EXPECT_EQ(w.state.units.at(first.unit).state, UnitState::kReady);
  EXPECT_EQ(w.state.units.at(first.unit).result_json, "");
  EXPECT_EQ(core::UnitBackend(w.state.runs.at(run)), "cpu-f32");

  w.WorkAll(worker);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
  EXPECT_EQ(BackendsOfDoneReplays(w), std::set<std::string>{"cpu-f32"});
}

TEST(CoreBackend, AResultFromBeforeTheMoveIsDoneAgain) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  const FakeWorker worker;
  w.backend = "cpu-f32";
  const Grant first = NextReplay(w, worker, w.Sync(worker));
  const Grant second = NextReplay(w, worker, w.Sync(worker, {w.Good(first)}));
  w.backend = "cpu-bf16";
  w.Sync(worker, {w.Good(second)}, {}, 0);
  EXPECT_EQ(w.state.units.at(second.unit).state, UnitState::kReady);
  EXPECT_EQ(w.state.units.at(second.unit).error.reason, "BACKEND_DIFFERS");
  w.backend = "cpu-f32";
  w.WorkAll(worker);
  EXPECT_EQ(BackendsOfDoneReplays(w), std::set<std::string>{"cpu-f32"});
}

TEST(CoreBackend, AForcedBackendIsToldToEveryUnitAndNeverLeft) {
  World w;
  const std::string ref = w.AddModel("ref");
  RunRow spec = w.Spec("r1", ref, {ref});
  spec.backend = "cpu-bf16";
  const std::string run = w.Create(spec);
  const FakeWorker worker;
  w.backend = "cpu-f32";
  const Grant first = NextReplay(w, worker, w.Sync(worker));
  EXPECT_EQ(core::UnitBackend(w.state.runs.at(run)), "cpu-bf16");
  w.Sync(worker, {w.Good(first)}, {}, 0);
  EXPECT_EQ(w.state.units.at(first.unit).error.reason, "BACKEND_DIFFERS");
  EXPECT_FALSE(HasNote(w, "BACKEND_MOVED"));
}

TEST(CoreBackend, AnUnknownBackendIsRefusedAndAForcedOneIsOtherWork) {
  World w;
  const std::string ref = w.AddModel("ref");
  RunRow spec = w.Spec("r1", ref, {ref});
  spec.backend = "tpu";
  EXPECT_EQ(ReasonOf(w.Do(CreateRun{spec}).status), "REPLAY_BACKEND_UNKNOWN");
  const std::string open = WorkFingerprint(spec, spec.candidates[0]);
  spec.backend = "cpu-f32";
  EXPECT_NE(WorkFingerprint(spec, spec.candidates[0]), open);
}

}  // namespace
}  // namespace assay
