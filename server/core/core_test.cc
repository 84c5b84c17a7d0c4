#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/core/apply.h"
#include "server/core/core_test_world.h"
#include "server/core/progress.h"
#include "server/core/unit_document.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing_world::Count;
using testing_world::FakeWorker;
using testing_world::HasNote;
using testing_world::LastReason;
using testing_world::World;

TEST(Core, ARunGoesThroughEveryPhaseAndIsSealed) {
  World w;
  const std::string ref = w.AddModel("ref"), cand = w.AddModel("cand");
  const std::string run = w.Create(w.Spec("r1", ref, {cand}));
  EXPECT_EQ(w.StateOf(run), RunState::kQueued);
  const auto kinds = w.WorkAll({});
  EXPECT_EQ(Count(kinds, UnitKind::kPrepare), 2);
  EXPECT_EQ(Count(kinds, UnitKind::kCapture), 4);  // two models, four contexts, two a unit
  EXPECT_EQ(Count(kinds, UnitKind::kRepeat), 2);   // one sentinel each
  EXPECT_EQ(Count(kinds, UnitKind::kReplay), 2);
  EXPECT_EQ(Count(kinds, UnitKind::kNoise), 0);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
  EXPECT_THAT(w.to_seal, ElementsAre(run));
  w.SealAll();
  EXPECT_EQ(w.StateOf(run), RunState::kSucceeded);
  EXPECT_EQ(w.state.meta.log_size, 1u);
  EXPECT_EQ(LastReason(w, run), "SUCCEEDED");
  EXPECT_TRUE(w.state.active_runs.empty());
}

// Every repeat unit restarts rank processes, so small units must not multiply them.
TEST(Core, AllSentinelsOfACaptureAreRepeatedInOneUnit) {
  World w;
  const std::string ref = w.AddModel("ref"), cand = w.AddModel("cand");
  RunRow spec = w.Spec("r1", ref, {cand});
  spec.unit_contexts = 1;
  spec.sentinels = {0, 2, 3};
  w.Create(spec);
  const auto kinds = w.WorkAll({});
  EXPECT_EQ(Count(kinds, UnitKind::kCapture), 8);
  EXPECT_EQ(Count(kinds, UnitKind::kRepeat), 2);  // one a model
}

TEST(Core, TheSameRequestIsOneRunAndAnotherSpecIsRefused) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  const Outcome again = w.Do(CreateRun{w.Spec("r1", ref, {ref})});
  ASSERT_TRUE(again.status.ok());
  EXPECT_EQ(std::get<RunAnswer>(again.answer).run, run);
  EXPECT_TRUE(std::get<RunAnswer>(again.answer).existing);
  EXPECT_TRUE(again.rows.empty());
  RunRow other = w.Spec("r1", ref, {ref});
  other.spec_sha256 = Sha256Hex("other");
  EXPECT_EQ(ReasonOf(w.Do(CreateRun{other}).status), "REQUEST_ID_REUSED");
}

TEST(Core, BadRunsAreRefusedByName) {
  World w;
  const std::string ref = w.AddModel("ref");
  const auto reason = [&](auto change) {
    RunRow run = w.Spec("bad", ref, {ref, ref});
    change(&run);
    const Outcome outcome = w.Do(CreateRun{run});
    EXPECT_TRUE(outcome.rows.empty());
    return ReasonOf(outcome.status);
  };
  EXPECT_EQ(reason([](RunRow* r) { r->candidates[1].label = "c0"; }), "LABEL_DUPLICATE");
  EXPECT_EQ(reason([](RunRow* r) { r->candidates[1].label = "a/b"; }), "LABEL_INVALID");
  EXPECT_EQ(reason([](RunRow* r) { r->candidates[1].label = ".."; }), "LABEL_INVALID");
  EXPECT_EQ(reason([](RunRow* r) { r->reference.model = Sha256Hex("x"); }), "MODEL_UNKNOWN");
  EXPECT_EQ(reason([](RunRow* r) { r->suite = Sha256Hex("x"); }), "SUITE_UNKNOWN");
  EXPECT_EQ(reason([](RunRow* r) { r->numeric_policy = "sloppy"; }), "POLICY_UNKNOWN");
  EXPECT_EQ(reason([](RunRow* r) { r->heads = {"own", "own"}; }), "RUN_INVALID");
  EXPECT_EQ(reason([](RunRow* r) { r->candidates.clear(); }), "RUN_INVALID");
  EXPECT_EQ(reason([](RunRow* r) { r->reference.given_capture = Sha256Hex("x"); }), "RUN_INVALID");
  EXPECT_EQ(reason([](RunRow* r) {
              r->reference.model.clear();
              r->reference.given_capture = Sha256Hex("x");
            }),
            "CAPTURE_UNKNOWN");
}

TEST(Core, AnEarlierCaptureIsReusedAndSaidSo) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a"), b = w.AddModel("b");
  w.Create(w.Spec("r1", ref, {a}));
  w.WorkAll({});
  w.SealAll();
  const std::string second = w.Create(w.Spec("r2", ref, {b}));
  const auto kinds = w.WorkAll({});
  EXPECT_EQ(Count(kinds, UnitKind::kCapture), 2);  // only b's
  EXPECT_EQ(Count(kinds, UnitKind::kPrepare), 1);
  EXPECT_EQ(Count(kinds, UnitKind::kRepeat), 1);
  EXPECT_TRUE(HasNote(w, "CAPTURE_REUSED"));
  w.SealAll();
  EXPECT_EQ(w.StateOf(second), RunState::kSucceeded);
}

TEST(Core, IdenticalWorkIsAnsweredFromTheSealedReportUnlessFresh) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a"), b = w.AddModel("b");
  w.Create(w.Spec("r1", ref, {a}));
  w.WorkAll({});
  w.SealAll();
  const std::string same = w.Create(w.Spec("r2", ref, {a}));
  EXPECT_EQ(w.StateOf(same), RunState::kSucceeded);
  EXPECT_TRUE(w.state.runs.at(same).candidates[0].reused);
  // Beside a new candidate only the new one is computed.
  const std::string mixed = w.Create(w.Spec("r3", ref, {a, b}));
  w.WorkAll({});
  for (const auto& [id, unit] : w.state.units) {
    if (unit.run == mixed && unit.kind == UnitKind::kReplay) {
      EXPECT_THAT(unit.candidates, ElementsAre(1u));
    }
  }
  w.SealAll();
  EXPECT_EQ(w.StateOf(mixed), RunState::kSucceeded);
  RunRow fresh = w.Spec("r4", ref, {a});
  fresh.fresh = true;
  EXPECT_EQ(w.StateOf(w.Create(fresh)), RunState::kQueued);
}

TEST(Core, AReusedReportOfKernelsThatNobodyHasNowSaysSo) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  w.WorkAll({});
  w.SealAll();
  const auto said = [&](const std::string& run) {
    for (const Row& row : w.committed) {
      const auto* e = std::get_if<EventRow>(&row);
      if (e != nullptr && e->run == run && e->reason == "REPORT_REUSED")
        return e->message.find("no connected worker has now") != std::string::npos;
    }
    ADD_FAILURE() << "not reused";
    return false;
  };
  EXPECT_FALSE(said(w.Create(w.Spec("r2", ref, {ref}))));
  FakeWorker other;
  other.incarnation = "00000000000000bb";
  other.replay = R"({"kernels":"other"})";
  w.Sync(other, {}, {}, 0);
  EXPECT_TRUE(said(w.Create(w.Spec("r3", ref, {ref}))));
}

TEST(Core, OneBadCandidateFailsAloneAndTheRunIsPartial) {
  World w;
  const std::string ref = w.AddModel("ref"), bad = w.AddModel("bad"), good = w.AddModel("good");
  const std::string run = w.Create(w.Spec("r1", ref, {bad, good}));
  SyncAnswer answer = w.Sync({});
  while (!answer.start.empty()) {
    const Grant grant = answer.start.front();
    const UnitRow& unit = w.state.units.at(grant.unit);
    const bool refuse = unit.kind == UnitKind::kCapture && unit.model == bad;
    answer =
        w.Sync({}, {refuse ? World::Bad(grant, "UNKNOWN_ARCHITECTURE", false) : w.Good(grant)});
  }
  w.SealAll();
  const RunRow& row = w.state.runs.at(run);
  EXPECT_EQ(row.state, RunState::kSucceeded);
  EXPECT_EQ(row.candidates[0].state, CandidateState::kFailed);
  EXPECT_EQ(row.candidates[0].error.reason, "UNKNOWN_ARCHITECTURE");
  EXPECT_EQ(row.candidates[1].state, CandidateState::kSealed);
}

TEST(Core, ARefusedRowFailsTheCandidateThatItNamesAndTheUnitGoesOnWithout) {
  for (const std::string operand : {"cand0", "hcand0"}) {
    World w;
    const std::string ref = w.AddModel("ref"), bad = w.AddModel("bad"), good = w.AddModel("good");
    const std::string run = w.Create(w.Spec("r1", ref, {bad, good}));
    SyncAnswer answer = w.Sync({});
    int refused = 0;
    while (!answer.start.empty()) {
      const Grant grant = answer.start.front();
      const bool refuse = w.state.units.at(grant.unit).kind == UnitKind::kReplay && refused == 0;
      refused += refuse;
      answer = w.Sync(
          {}, {refuse ? World::Bad(grant, "NON_FINITE_INPUT", false, operand) : w.Good(grant)});
    }
    w.SealAll();
    const RunRow& row = w.state.runs.at(run);
    EXPECT_EQ(row.state, RunState::kSucceeded);
    EXPECT_EQ(row.candidates[0].error.reason, "NON_FINITE_INPUT");
    EXPECT_EQ(row.candidates[1].state, CandidateState::kSealed);
  }
}

TEST(Core, AFaultInTheReferenceFailsTheRun) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a");
  const std::string run = w.Create(w.Spec("r1", ref, {a}));
  SyncAnswer answer = w.Sync({});
  ASSERT_EQ(w.state.units.at(answer.start[0].unit).model, ref);
  answer = w.Sync({}, {World::Bad(answer.start[0], "GGUF_INVALID", false)});
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).error.reason, "GGUF_INVALID");
  EXPECT_TRUE(answer.start.empty());  // the candidate's units are dropped
}

TEST(Core, VocabularyFaultsAreFoundBeforeAnyCapture) {
  World w;
  const std::string ref = w.AddModel("ref"), other = w.AddModel("other"), good = w.AddModel("good");
  w.vocab_of[other] = 12;
  const std::string run = w.Create(w.Spec("r1", ref, {other, good}));
  w.WorkAll({});
  EXPECT_EQ(w.state.runs.at(run).candidates[0].error.reason, "VOCAB_MISMATCH");
  RunRow far = w.Spec("r2", ref, {good});
  far.max_token = 10;
  far.filter = "elsewhere";
  const std::string second = w.Create(far);
  w.WorkAll({});
  EXPECT_EQ(w.state.runs.at(second).error.reason, "TOKEN_OUT_OF_RANGE");
}

TEST(Core, RepeatsGoToAnotherWorkerWhereThereIsOneAndDifferencesAreMeasured) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  FakeWorker a, b;
  b.id = "w1";
  SyncAnswer answer = w.Sync(a);
  while (!answer.start.empty()) {
    EXPECT_NE(w.state.units.at(answer.start[0].unit).kind, UnitKind::kReplay);
    w.Sync(b, {}, {}, 0);
    if (w.state.units.at(answer.start[0].unit).kind == UnitKind::kRepeat)
      ADD_FAILURE() << "given to the first worker";
    if (w.state.units.at(answer.start[0].unit).kind == UnitKind::kReplay) break;
    answer = w.Sync(a, {w.Good(answer.start[0])}, {}, 1);
    if (!answer.start.empty() && w.state.units.at(answer.start[0].unit).kind == UnitKind::kReplay)
      break;
  }
  const SyncAnswer other = w.Sync(b, {}, {}, 3);
  std::vector<LeaseResult> results;
  int repeats = 0;
  for (const Grant& grant : other.start) {
    const UnitRow& unit = w.state.units.at(grant.unit);
    if (unit.kind != UnitKind::kRepeat) {
      results.push_back(w.Good(grant));
      continue;
    }
    ++repeats;
    EXPECT_THAT(unit.contexts, ElementsAre(1));
    results.push_back(w.Good(grant, "salt"));  // another digest
  }
  EXPECT_EQ(repeats, 1);
  w.Sync(b, results, {}, 0);
  if (!answer.start.empty()) w.Sync(a, {w.Good(answer.start[0])}, {}, 0);
  EXPECT_EQ(Count(w.WorkAll(a), UnitKind::kNoise), 1);
  // It compares the first rows of the sentinel with those of its repeat.
  const Suite suite = World::Tokens();
  for (const auto& [id, unit] : w.state.units) {
    if (unit.kind != UnitKind::kNoise) continue;
    const Json json = ParseJson(BuildUnitDocument(w.state, unit, &suite).value(), "unit").value();
    ASSERT_EQ(json["operands"].size(), 2u);
    EXPECT_EQ(json["operands"][0]["hidden"][0]["sha256"], Sha256Hex("hidden" + ref + "1"));
    EXPECT_EQ(json["operands"][1]["hidden"][0]["sha256"], Sha256Hex("hidden" + ref + "1salt"));
    EXPECT_EQ(json["comparisons"][0]["ref"]["operand"], json["operands"][0]["id"]);
    EXPECT_EQ(json["comparisons"][0]["cand"]["operand"], json["operands"][1]["id"]);
  }
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
}

TEST(Core, CancelStopsWorkAndIsIdempotent) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  const Grant grant = w.Sync({}).start.at(0);
  EXPECT_TRUE(w.Do(CancelRun{run}).status.ok());
  EXPECT_EQ(w.StateOf(run), RunState::kCancelled);
  const SyncAnswer answer = w.Sync({}, {}, {grant.lease});
  EXPECT_THAT(answer.cancel, ElementsAre(grant.lease));
  EXPECT_TRUE(answer.start.empty());
  EXPECT_TRUE(w.Do(CancelRun{run}).status.ok());
  EXPECT_EQ(ReasonOf(w.Do(CancelRun{"nope"}).status), "RUN_UNKNOWN");
  EXPECT_EQ(w.Sync({}, {w.Good(grant)}, {}, 0).acks.at(0).kind, AckKind::kStale);
}

TEST(Core, CancellingOneRunKeepsUnitsThatAnotherNeeds) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a"), b = w.AddModel("b");
  const std::string one = w.Create(w.Spec("r1", ref, {a}));
  const std::string two = w.Create(w.Spec("r2", ref, {b}));
  w.Do(CancelRun{one});
  w.WorkAll({});
  w.SealAll();
  EXPECT_EQ(w.StateOf(two), RunState::kSucceeded);
  for (const auto& [id, unit] : w.state.units) {
    if (unit.model == a) {
      EXPECT_EQ(unit.state, UnitState::kDropped);
    }
  }
}

TEST(Core, HeadsThatDifferAddTheSharedHead) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a");
  w.Create(w.Spec("r1", ref, {a, ref}));
  w.WorkAll({});
  const RunRow& run = w.state.runs.begin()->second;
  EXPECT_THAT(HeadModes(run, run.candidates[0]), ElementsAre("own", "shared"));
  EXPECT_THAT(HeadModes(run, run.candidates[1]), ElementsAre("own"));
  // The document of a replay unit, read back.
  const Suite suite = World::Tokens();
  for (const auto& [id, unit] : w.state.units) {
    if (unit.kind != UnitKind::kReplay) continue;
    const Json json = ParseJson(BuildUnitDocument(w.state, unit, &suite).value(), "unit").value();
    EXPECT_EQ(json["heads"].size(), 2u);
    EXPECT_EQ(json["operands"].size(), 3u);
    EXPECT_EQ(json["comparisons"].size(), 3u);
    EXPECT_EQ(
        json["comparisons"][0].dump(),
        R"({"id":"cand0/own","ref":{"operand":"ref","head":"href"},"cand":{"operand":"cand0","head":"hcand0"}})");
    EXPECT_EQ(json["comparisons"][1]["cand"]["head"], "href");
    EXPECT_EQ(
        json["comparisons"][2].dump(),
        R"({"id":"cand1/own","ref":{"operand":"ref","head":"href"},"cand":{"operand":"cand1","head":"href"}})");
    EXPECT_EQ(json["contexts"][0]["observed"].dump(), "[1,2,3,4,5,0,1,2]");
    EXPECT_EQ(json["operands"][0]["hidden"][0]["sha256"],
              Sha256Hex("hidden" + ref + std::to_string(unit.contexts[0])));
  }
}

// Units of one replay run side by side: all of them meet the bad rows.
TEST(Core, ACandidateBlamedByTwoUnitsFailsOnceAndTheOthersGoOn) {
  World w;
  const std::string ref = w.AddModel("ref"), bad = w.AddModel("bad"), good = w.AddModel("good");
  const std::string run = w.Create(w.Spec("r1", ref, {bad, good}));
  FakeWorker a, b;
  b.id = "w1";
  const auto is_replay = [&](const Grant& g) {
    return w.state.units.at(g.unit).kind == UnitKind::kReplay;
  };
  SyncAnswer answer = w.Sync(a);
  while (!answer.start.empty() && !is_replay(answer.start[0]))
    answer = w.Sync(a, {w.Good(answer.start[0])});
  ASSERT_FALSE(answer.start.empty());
  const Grant one = answer.start[0];
  SyncAnswer other = w.Sync(b);
  while (!other.start.empty() && !is_replay(other.start[0]))
    other = w.Sync(b, {w.Good(other.start[0])});
  ASSERT_FALSE(other.start.empty());
  w.Sync(a, {World::Bad(one, "NON_FINITE_INPUT", false, "cand0")}, {}, 0);
  w.Sync(b, {World::Bad(other.start[0], "NON_FINITE_INPUT", false, "cand0")}, {}, 0);
  EXPECT_EQ(w.StateOf(run), RunState::kRunning);
  // A worker that blames a candidate which its lease did not hold is not believed for ever.
  const SyncAnswer again = w.Sync(a);
  ASSERT_FALSE(again.start.empty());
  EXPECT_THAT(w.state.units.at(again.start[0].unit).candidates, ElementsAre(1u));
  w.Sync(a, {w.Good(again.start[0])}, {}, 0);
  w.WorkAll(b);
  w.WorkAll(a);
  w.SealAll();
  EXPECT_EQ(w.StateOf(run), RunState::kSucceeded);
  EXPECT_EQ(w.state.runs.at(run).candidates[0].error.reason, "NON_FINITE_INPUT");
  EXPECT_EQ(w.state.runs.at(run).candidates[1].state, CandidateState::kSealed);
}

TEST(Core, AUnitWhoseDocumentCannotBeMadeFailsByNameAfterSomeTries) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  for (int i = 0; i < 3; ++i) {
    const SyncAnswer answer = w.Sync({});
    ASSERT_EQ(answer.start.size(), 1u) << i;
    w.Do(DocumentFailed{answer.start[0].lease, {"INTERNAL", "UNIT_TOO_LARGE", "too large"}});
  }
  EXPECT_TRUE(w.Sync({}).start.empty());
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).error.reason, "UNIT_TOO_LARGE");
  w.Do(DocumentFailed{"1-2-3", {"INTERNAL", "X", "of nobody"}});  // nothing happens
}

// A call that still waits on a dead connection does not know the leases given since.
TEST(Core, AnOlderCallOfAWorkerNeitherLosesNorTakesLeases) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  Synchronize old_call;
  old_call.call = 7;
  old_call.worker = "w0";
  old_call.incarnation = "0000000000000001";
  old_call.replay_identity = FakeWorker().replay;
  old_call.capture_identity = FakeWorker().capture;
  old_call.free_slots = 1;
  Synchronize new_call = old_call;
  new_call.call = 8;
  const Outcome given = w.Do(new_call);
  ASSERT_TRUE(given.status.ok());
  const Grant grant = std::get<SyncAnswer>(given.answer).start.at(0);
  EXPECT_EQ(ReasonOf(w.Do(old_call).status), "CALL_SUPERSEDED");
  EXPECT_EQ(w.state.leases.count(grant.lease), 1u);
  EXPECT_EQ(w.state.leases.size(), 1u);
  // The same call again, as while it waits, is still the newest.
  new_call.leases.push_back({grant.lease, 0, 1});
  EXPECT_TRUE(w.Do(new_call).status.ok());
  EXPECT_EQ(w.state.leases.count(grant.lease), 1u);
}

TEST(Core, ACaptureMadeByOtherKernelsThanThePinnedOnesIsRefused) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  Grant grant = w.Sync({}, {w.Good(w.Sync({}).start.at(0))}).start.at(0);
  ASSERT_EQ(w.state.units.at(grant.unit).kind, UnitKind::kCapture);
  for (const char* identity : {R"({"kernels":"another"})", ""}) {
    LeaseResult result = w.Good(grant);
    Json json = ParseJson(result.result_json, "").value();
    json.erase("identity");
    if (*identity != '\0') json["identity"] = ParseJson(identity, "").value();
    result.result_json = json.dump();
    const SyncAnswer answer = w.Sync({}, {result});
    EXPECT_EQ(answer.acks.at(0).kind, AckKind::kInvalid) << identity;
    EXPECT_TRUE(w.state.files.empty() || w.state.files.begin()->second[0].empty());
    ASSERT_EQ(answer.start.size(), 1u);
    grant = answer.start[0];
  }
  EXPECT_EQ(w.Sync({}, {w.Good(grant)}, {}, 0).acks.at(0).kind, AckKind::kAccepted);
}

TEST(Core, ACaptureOfAnotherWidthThanTheHeadIsRefused) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  const Grant grant = w.Sync({}, {w.Good(w.Sync({}).start.at(0))}).start.at(0);
  LeaseResult result = w.Good(grant);
  Json json = ParseJson(result.result_json, "").value();
  json["files"][0]["width"] = 5;
  result.result_json = json.dump();
  EXPECT_EQ(w.Sync({}, {result}, {}, 0).acks.at(0).kind, AckKind::kInvalid);
}

// Replays over two captures of one model would be one report about neither.
TEST(Core, ACaptureMovesToOtherKernelsOnlyBeforeTheFirstReplay) {
  for (const bool begun : {false, true}) {
    World w;
    const std::string ref = w.AddModel("ref"), cand = w.AddModel("cand");
    RunRow spec = w.Spec("r1", ref, {cand});
    spec.unit_contexts = 1;
    spec.repeat_sentinels = false;
    const std::string run = w.Create(spec);
    FakeWorker one, two;
    two.id = "w1";
    two.capture = R"({"kernels":"other"})";
    // The first worker leaves as soon as a replay unit is READY, or LEASED.
    SyncAnswer answer = w.Sync(one);
    const auto ready_replays = [&] {
      return std::count_if(
          w.state.ready_units.begin(), w.state.ready_units.end(),
          [&](uint64_t id) { return w.state.units.at(id).kind == UnitKind::kReplay; });
    };
    while (!answer.start.empty() && ready_replays() == 0)
      answer = w.Sync(one, {w.Good(answer.start[0])});
    ASSERT_GT(ready_replays(), 0);
    std::vector<LeaseResult> left;
    for (const Grant& grant : answer.start)
      left.push_back(World::Bad(grant, "WORKER_LEAVING", true));
    answer = w.Sync(one, left, {}, begun ? 16 : 0);
    std::vector<LeaseResult> done;
    for (const Grant& grant : answer.start) {
      if (w.state.units.at(grant.unit).kind == UnitKind::kReplay) done.push_back(w.Good(grant));
    }
    ASSERT_EQ(done.size(), begun ? 1u : 0u);
    w.Sync(one, done, {}, 0);
    const std::string before = w.state.runs.at(run).candidates[0].source.capture;
    w.Sync(two, {}, {}, 0);
    for (int i = 0; i < 100; ++i) {
      w.now.mono_ms += 1'000;
      w.Sync(two, {}, {}, 0);
      w.Do(Tick{});
    }
    for (const auto& [id, unit] : w.state.units) {
      if (unit.kind != UnitKind::kReplay || unit.state != UnitState::kReady) continue;
      for (const int64_t index : unit.contexts)
        EXPECT_EQ(
            w.state.files.at(w.state.runs.at(run).candidates[0].source.capture)[0].count(index),
            1u);
    }
    w.WorkAll(two);
    const RunRow& row = w.state.runs.at(run);
    EXPECT_EQ(HasNote(w, "CAPTURE_MOVED"), !begun);
    if (begun) {
      EXPECT_EQ(row.candidates[0].source.capture, before);
      EXPECT_EQ(row.error.reason, "KERNEL_UNAVAILABLE");
    } else {
      EXPECT_NE(row.candidates[0].source.capture, before);
      EXPECT_EQ(row.state, RunState::kSealing);
    }
  }
}

TEST(Core, ALowDiskIsSaidAndEndsRunsOnlyAfterAWhile) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  w.state.options.disk_wait_ms = 10'000;
  w.Do(Tick{true});
  EXPECT_EQ(LastReason(w, run), "DISK_LOW");
  const size_t rows = w.committed.size();
  w.now.mono_ms += 9'000;
  w.Do(Tick{true});
  EXPECT_EQ(w.committed.size(), rows);  // said once
  w.Do(Tick{false});
  w.now.mono_ms += 9'000;
  w.Do(Tick{true});
  EXPECT_EQ(w.StateOf(run), RunState::kQueued);  // the wait began anew
  w.now.mono_ms += 10'000;
  w.Do(Tick{true});
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).error.reason, "DISK_LOW");
}

TEST(Core, LostWorkersMakeRoomForNewNamesAndLiveOnesDoNot) {
  World w;
  w.state.options.workers_max = 2;
  FakeWorker a, b, c;
  b.id = "w1";
  c.id = "w2";
  w.Sync(a);
  w.now.mono_ms += 1;
  w.Sync(b);
  EXPECT_EQ(ReasonOf(w.TrySync(c).status), "TOO_MANY_WORKERS");
  w.now.mono_ms += 30'000;
  w.Do(Tick{});  // only the first one is lost
  EXPECT_TRUE(w.TrySync(c).status.ok());
  EXPECT_EQ(w.state.workers.count("w0"), 0u);
  EXPECT_EQ(w.state.workers.count("w1"), 1u);
}

TEST(Core, AWorkerReplacedManyTimesStillSendsTheLastProcessAway) {
  World w;
  FakeWorker worker;
  for (int i = 1; i <= 40; ++i) {
    worker.incarnation = std::to_string(1'000'000'000'000'000 + i);
    ASSERT_TRUE(w.TrySync(worker).status.ok());
  }
  worker.incarnation = std::to_string(1'000'000'000'000'039);
  EXPECT_EQ(ReasonOf(w.TrySync(worker).status), "WORKER_REPLACED");
}

TEST(Core, OfTwoReportsOfOneWorkTheNewestIsReusedInWhateverOrderTheyAreRead) {
  ReportRow older, newer;
  older.id = "b";
  newer.id = "a";
  older.fingerprint = newer.fingerprint = "f";
  older.create_ms = 1;
  newer.create_ms = 2;
  State one, two;
  one.Absorb(older);
  one.Absorb(newer);
  two.Absorb(newer);
  two.Absorb(older);
  EXPECT_EQ(one.report_of_work.at("f"), "a");
  EXPECT_EQ(two.report_of_work.at("f"), "a");
}

TEST(Core, ARepeatThatFailedForOneRunIsTriedAgainForALaterOne) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  SyncAnswer answer = w.Sync({});
  int refused = 0;
  while (!answer.start.empty()) {
    const Grant grant = answer.start.front();
    const bool refuse = w.state.units.at(grant.unit).kind == UnitKind::kRepeat;
    refused += refuse;
    answer = w.Sync({}, {refuse ? World::Bad(grant, "RANK_DIED", false) : w.Good(grant)});
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
  w.SealAll();
  w.Create(w.Spec("r2", ref, {a}));
  EXPECT_EQ(Count(w.WorkAll({}), UnitKind::kRepeat), 2);  // the reference's again, and a's
}

TEST(Core, ProgressIsTheShareThatTheRanksReportInTheirOwnUnit) {
  World w;
  const std::string ref = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", ref, {ref}));
  const Grant grant = w.Sync({}, {w.Good(w.Sync({}).start.at(0))}).start.at(0);
  ASSERT_EQ(w.state.units.at(grant.unit).contexts.size(), 2u);
  const auto done = [&](int64_t d, int64_t total) {
    Synchronize sync;
    sync.worker = "w0";
    sync.incarnation = "0000000000000001";
    sync.replay_identity = FakeWorker().replay;
    sync.capture_identity = FakeWorker().capture;
    sync.leases.push_back({grant.lease, d, total});
    EXPECT_TRUE(w.Do(sync).status.ok());
    for (const PhaseProgress& phase : ProgressOf(w.state, w.state.runs.at(run), w.now))
      if (phase.phase == "capture") return phase.contexts_done;
    return int64_t{-1};
  };
  EXPECT_EQ(done(8, 16), 1);  // half of 16 positions is one of two contexts
  EXPECT_EQ(done(15, 16), 1);
  EXPECT_EQ(done(16, 16), 2);
  EXPECT_EQ(done(INT64_MAX, INT64_MAX), 2);
  EXPECT_EQ(done(-5, 16), 0);
}

TEST(Core, AReplayUnitNamesABoundedNumberOfFiles) {
  World w;
  w.state.options.unit_files_max = 7;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a");
  RunRow spec = w.Spec("r1", ref, {a, ref});
  spec.unit_contexts = 4;
  w.Create(spec);
  const auto kinds = w.WorkAll({});
  EXPECT_EQ(Count(kinds, UnitKind::kReplay), 2);  // three operands: two contexts a unit
}

TEST(Core, ACaptureTakenElsewhereInTheModelIsNoOperand) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(w.Spec("r1", ref, {ref}));
  w.WorkAll({});
  CaptureRow elsewhere = w.state.captures.begin()->second;
  const FileMap files = w.state.files.at(elsewhere.id)[0];
  elsewhere.id = Sha256Hex("elsewhere");
  elsewhere.cut_point = "before_final_norm";
  AddResources add{{elsewhere}};
  for (const auto& [index, file] : files) {
    CaptureFileRow copy = file;
    copy.capture = elsewhere.id;
    add.rows.emplace_back(copy);
  }
  w.Do(add);
  RunRow run = w.Spec("r2", ref, {ref});
  run.candidates[0].source = {};
  run.candidates[0].source.given_capture = elsewhere.id;
  EXPECT_EQ(ReasonOf(w.Do(CreateRun{run}).status), "CUT_POINT_DIFFERS");
}

}  // namespace
}  // namespace assay
