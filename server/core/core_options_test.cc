// Captures as operands, heads with biases, and what a run may ask of its replays.

#include <gtest/gtest.h>

#include <cmath>

#include "server/core/core_test_world.h"
#include "server/core/steps.h"
#include "server/core/unit_document.h"

namespace assay {
namespace {

using testing_world::Count;
using testing_world::FakeWorker;
using testing_world::HasNote;
using testing_world::kContextLength;
using testing_world::World;

std::string AddHead(World& w, const std::string& name, int64_t vocab = 10, int64_t hidden = 4,
                    double max_abs = 1) {
  HeadRow head;
  head.id = Sha256Hex("head" + name);
  head.file_sha256 = Sha256Hex("file" + name);
  head.file_bytes = 80;
  head.tensor = "lm_head.weight";
  head.dtype = "BF16";
  head.vocab = vocab;
  head.hidden = hidden;
  head.max_abs = max_abs;
  w.Do(AddResources{{head}});
  return head.id;
}

std::string AddCapture(World& w, const std::string& name, double max_abs = 1,
                       std::vector<int64_t> contexts = {0, 1, 2, 3}) {
  CaptureRow capture;
  capture.id = Sha256Hex("capture" + name);
  capture.suite = w.suite_id;
  capture.cut_point = "after_final_rmsnorm_before_lm_head";
  capture.identity_json = "{}";
  capture.origin = "ingest";
  capture.contexts_total = 4;
  AddResources add{{capture}};
  for (const int64_t index : contexts) {
    CaptureFileRow file;
    file.capture = capture.id;
    file.index = index;
    file.sha256 = Sha256Hex(name + std::to_string(index));
    file.bytes = 64;
    file.rows = kContextLength - 1;
    file.width = 4;
    file.max_abs = max_abs;
    add.rows.emplace_back(file);
  }
  w.Do(std::move(add));
  return capture.id;
}

RunRow CaptureSpec(World& w, const std::string& request, const std::string& reference_head) {
  RunRow run = w.Spec(request, "", {""});
  run.reference.given_capture = AddCapture(w, "ref");
  run.reference.given_head = reference_head;
  run.candidates[0].source.given_capture = AddCapture(w, "cand");
  return run;
}

Json DocumentOfReplay(World& w) {
  const Suite suite = World::Tokens();
  for (const auto& [id, unit] : w.state.units) {
    if (unit.kind != UnitKind::kReplay || unit.state != UnitState::kLeased) continue;
    const auto text = BuildUnitDocument(w.state, unit, &suite);
    EXPECT_TRUE(text.ok()) << text.status();
    return ParseJson(*text, "unit").value();
  }
  ADD_FAILURE() << "no replay unit is leased";
  return {};
}

TEST(CoreCaptures, ARunOfCapturesIsOnlyReplayedAndSealed) {
  World w;
  const std::string head = AddHead(w, "a");
  const std::string run = w.Create(CaptureSpec(w, "r1", head));
  const auto kinds = w.WorkAll(FakeWorker());
  EXPECT_EQ(Count(kinds, UnitKind::kReplay), static_cast<int>(kinds.size()));
  EXPECT_EQ(kinds.size(), 2u);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
}

TEST(CoreCaptures, WithoutAHeadOfItsOwnACandidateIsScoredThroughTheReferences) {
  World w;
  const std::string head = AddHead(w, "a");
  const std::string run = w.Create(CaptureSpec(w, "r1", head));
  EXPECT_EQ(HeadModes(w.state.runs.at(run), w.state.runs.at(run).candidates[0]),
            std::vector<std::string>{"shared"});
  w.Sync(FakeWorker());
  const Json unit = DocumentOfReplay(w);
  EXPECT_EQ(unit["heads"].size(), 1u);
  EXPECT_EQ(unit["comparisons"].size(), 1u);
  EXPECT_EQ(unit["comparisons"][0]["id"], "cand0/shared");

  RunRow own = CaptureSpec(w, "r2", head);
  own.heads = {"own"};
  const Outcome refused = w.Do(CreateRun{own});
  EXPECT_EQ(ReasonOf(refused.status), "HEAD_UNKNOWN");
  EXPECT_NE(MessageOf(refused.status).find("candidate c0"), std::string::npos);
}

TEST(CoreCaptures, AHeadWithABiasIsAnotherHead) {
  World w;
  const std::string head = AddHead(w, "a");
  RunRow spec = CaptureSpec(w, "r1", head);
  OperandRow& candidate = spec.candidates[0].source;
  candidate.given_head = head;
  candidate.bias_file = Sha256Hex("biasfile");
  candidate.bias_bytes = 40;
  candidate.bias_tensor = "lm_head.bias";
  candidate.bias = Sha256Hex("bias");
  w.Create(spec);
  w.Sync(FakeWorker());
  const Json unit = DocumentOfReplay(w);
  ASSERT_EQ(unit["heads"].size(), 2u);
  EXPECT_TRUE(unit["heads"][0]["bias"].is_null());
  EXPECT_EQ(unit["heads"][1]["bias"],
            Json({{"sha256", Sha256Hex("biasfile")}, {"bytes", 40}, {"tensor", "lm_head.bias"}}));
  EXPECT_EQ(unit["comparisons"].size(), 2u);  // own, and shared because the heads differ
}

TEST(CoreCaptures, AReferenceNeedsAHeadAndEveryCaptureItsContexts) {
  World w;
  RunRow spec = CaptureSpec(w, "r1", "");
  EXPECT_EQ(ReasonOf(w.Do(CreateRun{spec}).status), "HEAD_UNKNOWN");
  spec.reference.given_head = AddHead(w, "a");
  spec.candidates[0].source.given_capture = AddCapture(w, "part", 1, {0, 1, 3});
  const Outcome refused = w.Do(CreateRun{spec});
  EXPECT_EQ(ReasonOf(refused.status), "CAPTURE_INCOMPLETE");
  EXPECT_NE(MessageOf(refused.status).find("context 2"), std::string::npos);
}

TEST(CoreCaptures, AHeadOfAnotherWidthFailsItsCandidateAlone) {
  World w;
  RunRow spec = CaptureSpec(w, "r1", AddHead(w, "a"));
  CandidateRow bad = spec.candidates[0];
  bad.label = "bad";
  bad.source.given_head = AddHead(w, "wide", 10, 8);
  spec.candidates.push_back(bad);
  const std::string run = w.Create(spec);
  EXPECT_EQ(w.state.runs.at(run).candidates[1].state, CandidateState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).candidates[1].error.reason, "SHAPE_MISMATCH");
  w.WorkAll(FakeWorker());
  w.SealAll();
  EXPECT_EQ(w.StateOf(run), RunState::kSucceeded);
}

TEST(CoreOptions, ReachTheUnitDocument) {
  World w;
  RunRow spec = CaptureSpec(w, "r1", AddHead(w, "a"));
  spec.logit_scale = 0.25;
  spec.score_from = 3;
  spec.vocab_chunk = 16;
  spec.numeric_policy = "torch-bf16";
  spec.valid_vocab = 9;
  spec.allow_infinite = true;
  w.Create(spec);
  w.Sync(FakeWorker());
  const Json unit = DocumentOfReplay(w);
  EXPECT_EQ(unit["heads"][0]["logit_scale"], 0.25);
  EXPECT_EQ(unit["score_from"], 3);
  EXPECT_EQ(unit["vocab_chunk"], 16);
  EXPECT_EQ(unit["valid_vocab"], 9);
  EXPECT_EQ(unit["allow_infinite"], true);
  // Tokens 0 1 2 3 4 5 0 1 2: from row 3 on, token 4 is the first that is predicted.
  EXPECT_EQ(unit["contexts"][0]["observed"], Json({4, 5, 0, 1, 2}));
}

// Finished work is found again only under the very same options.
TEST(CoreOptions, EachIsPartOfTheWorksIdentity) {
  World w;
  RunRow spec = CaptureSpec(w, "r0", AddHead(w, "a"));
  spec.candidates[0].source.given_head = AddHead(w, "b");
  std::set<std::string> seen = {WorkFingerprint(spec, spec.candidates[0])};
  const auto differs = [&](auto change) {
    RunRow other = spec;
    change(other);
    return seen.insert(WorkFingerprint(other, other.candidates[0])).second;
  };
  EXPECT_FALSE(differs([](RunRow& r) { r.request_id = "r1"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.logit_scale = 0.5; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.softcap = 30; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.valid_vocab = 9; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.score_from = 1; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.vocab_chunk = 16; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.limit = 2; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.allow_infinite = true; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.numeric_policy = "torch-bf16"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.reference.bias = "x"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.candidates[0].source.bias = "x"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.candidates[0].source.head_origin_json = "{}"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.candidates[0].source.given_head = "x"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.reference.given_capture = "x"; }));
  EXPECT_TRUE(differs([](RunRow& r) { r.backend = "cpu-f32"; }));
}

TEST(CoreOptions, WhatCannotBeComputedIsRefusedBeforeAnyWork) {
  World w;
  const RunRow spec = CaptureSpec(w, "r1", AddHead(w, "a"));
  const auto reason = [&](auto change) {
    RunRow run = spec;
    change(run);
    return ReasonOf(w.Do(CreateRun{run}).status);
  };
  EXPECT_EQ(reason([](RunRow& r) { r.score_from = kContextLength - 1; }), "FILTER_EMPTY");
  EXPECT_EQ(reason([](RunRow& r) { r.score_from = -1; }), "FILTER_EMPTY");
  EXPECT_EQ(reason([](RunRow& r) { r.vocab_chunk = 16; }), "RUN_INVALID");
  for (const double scale : {-1.0, 1e300, 1e-300, static_cast<double>(INFINITY), std::nan("")}) {
    EXPECT_EQ(reason([scale](RunRow& r) { r.logit_scale = scale; }), "RUN_INVALID") << scale;
  }
  for (const char* policy : {"torch-bf16", "fp64-audit"}) {  // the GPU has exact only
    EXPECT_EQ(reason([policy](RunRow& r) {
                r.backend = "cuda-bf16";
                r.numeric_policy = policy;
              }),
              "RUN_INVALID")
        << policy;
  }
  EXPECT_EQ(reason([](RunRow& r) { r.limit = -1; }), "RUN_INVALID");
}

TEST(CoreOptions, AVocabularyThatDoesNotHoldFailsTheRun) {
  World w;
  RunRow spec = CaptureSpec(w, "r1", AddHead(w, "a"));
  spec.valid_vocab = 11;
  EXPECT_EQ(w.state.runs.at(w.Create(spec)).error.reason, "SHAPE_MISMATCH");
  spec.request_id = "r2";
  spec.valid_vocab = 5;  // the suite has id 5
  EXPECT_EQ(w.state.runs.at(w.Create(spec)).error.reason, "TOKEN_OUT_OF_RANGE");
  SuiteRow suite = w.state.suites.at(w.suite_id);
  suite.vocab_size = 12;
  w.state.Absorb(suite);
  spec.request_id = "r3";
  spec.valid_vocab = 0;
  EXPECT_EQ(w.state.runs.at(w.Create(spec)).error.reason, "SHAPE_MISMATCH");
}

// Both maxima are known when a capture or head is there, and decide before the first unit.
TEST(CoreBackendChoice, LargeValuesInACaptureOrHeadChooseTheFallbackFromTheStart) {
  for (const bool in_head : {false, true}) {
    World w;
    RunRow spec = CaptureSpec(w, "r1", AddHead(w, "a", 10, 4, in_head ? 0x1p60 : 0x1.fp59));
    if (!in_head) spec.candidates[0].source.given_capture = AddCapture(w, "large", 0x1p61);
    const std::string run = w.Create(spec);
    w.Sync(FakeWorker());
    EXPECT_EQ(DocumentOfReplay(w)["backend"], "cpu-f32");
    EXPECT_TRUE(HasNote(w, "BACKEND_CHOSEN"));
    EXPECT_FALSE(HasNote(w, "BACKEND_MOVED"));
    EXPECT_EQ(w.state.runs.at(run).settled_backend, "cpu-f32");
  }
  World w;
  w.Create(CaptureSpec(w, "r1", AddHead(w, "a", 10, 4, 0x1.fp59)));
  w.Sync(FakeWorker());
  EXPECT_EQ(DocumentOfReplay(w)["backend"], "auto");
}

const FakeWorker& PlainCpu() {
  static const auto* const worker = [] {
    auto* w = new FakeWorker;
    w->replay = R"({"backend":"cpu-f32","self_test_sha256_bf16":""})";
    return w;
  }();
  return *worker;
}

TEST(CoreBackendChoice, ABackendThatNobodyHasIsRefusedAtOnce) {
  World w;
  const std::string model = w.AddModel("ref");
  w.Sync(PlainCpu());
  RunRow spec = w.Spec("r1", model, {model});
  for (const char* backend : {"cpu-bf16", "cuda-bf16"}) {
    spec.backend = backend;
    const Outcome refused = w.Do(CreateRun{spec});
    EXPECT_EQ(ReasonOf(refused.status), "BACKEND_UNAVAILABLE");
    EXPECT_NE(MessageOf(refused.status).find("only cpu-f32"), std::string::npos);
  }
  spec.backend = "cpu-f32";
  w.Create(spec);
}

TEST(CoreBackendChoice, NothingIsCapturedWhileNobodyHasTheBackend) {
  World w;
  const std::string model = w.AddModel("ref");
  RunRow spec = w.Spec("r1", model, {model});
  spec.backend = "cpu-bf16";
  const std::string run = w.Create(spec);
  // The model is looked at, nothing is captured.
  const auto kinds = w.WorkAll(PlainCpu());
  EXPECT_EQ(Count(kinds, UnitKind::kCapture), 0);
  w.Do(Tick{});
  w.now.mono_ms += w.state.options.model_wait_ms;
  w.Sync(PlainCpu());
  w.Do(Tick{});
  EXPECT_EQ(w.StateOf(run), RunState::kFailed);
  EXPECT_EQ(w.state.runs.at(run).error.reason, "BACKEND_UNAVAILABLE");
}

TEST(CoreBackendChoice, AWorkerThatHasItTakesTheRun) {
  World w;
  const std::string model = w.AddModel("ref");
  RunRow spec = w.Spec("r1", model, {model});
  spec.backend = "cpu-bf16";
  const std::string run = w.Create(spec);
  w.WorkAll(PlainCpu());
  FakeWorker able;
  able.id = "w1";
  able.replay = R"({"backend":"cpu-bf16","self_test_sha256_bf16":"ab"})";
  w.WorkAll(able);
  w.WorkAll(PlainCpu());
  w.WorkAll(able);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
  for (const auto& [id, unit] : w.state.units) {
    if (unit.kind != UnitKind::kReplay) continue;
    EXPECT_EQ(unit.attempts.back().worker, "w1");
  }
}

// A run of a model whose replay unit has just been leased.
class CoreLeasedReplay : public testing::Test {
 protected:
  CoreLeasedReplay() {
    RunRow spec = w.Spec("r1", model, {model});
    spec.repeat_sentinels = false;
    run = w.Create(spec);
    SyncAnswer answer = w.Sync(worker);
    while (w.state.units.at(answer.start.at(0).unit).kind != UnitKind::kReplay)
      answer = w.Sync(worker, {w.Good(answer.start[0])});
    replay = answer.start[0];
  }

  World w;
  const FakeWorker worker;
  const std::string model = w.AddModel("ref");
  std::string run;
  Grant replay;
};

// A unit whose input is damaged goes back until the input is made again.
TEST_F(CoreLeasedReplay, ALostHiddenFileIsCapturedAgain) {
  const UnitRow unit = w.state.units.at(replay.unit);
  const std::string capture = w.state.runs.at(run).reference.capture;
  const int64_t index = unit.contexts.at(0);
  const std::string blob = w.state.files.at(capture)[0].at(index).sha256;
  EXPECT_EQ(BlobsOfUnit(w.state, unit).count(blob), 1u);

  LeaseResult failed = World::Bad(replay, "DOWNLOAD_CORRUPT", true);
  failed.damaged = {blob};
  w.Sync(worker, {failed}, {}, 0);
  EXPECT_EQ(w.state.units.at(unit.id).state, UnitState::kBlocked);
  EXPECT_TRUE(HasNote(w, "BLOB_DROPPED"));
  const UnitRow next = w.state.units.rbegin()->second;
  EXPECT_EQ(next.kind, UnitKind::kCapture);
  EXPECT_EQ(next.contexts, std::vector<int64_t>{index});
  EXPECT_EQ(next.state, UnitState::kReady);
  const auto kinds = w.WorkAll(worker);
  EXPECT_EQ(Count(kinds, UnitKind::kCapture), 1);
  EXPECT_EQ(w.state.units.at(unit.id).state, UnitState::kDone);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);

  // What is stored says the same to the next process.
  State again;
  for (const Row& row : w.committed) again.Absorb(row);
  EXPECT_EQ(again.files.at(capture)[0].count(index), 1u);
}

TEST_F(CoreLeasedReplay, ALostHeadIsExtractedAgain) {
  LeaseResult failed = World::Bad(replay, "DOWNLOAD_CORRUPT", true);
  failed.damaged = {Sha256Hex("headfile" + model)};
  const SyncAnswer answer = w.Sync(worker, {failed});  // no replay without the head
  ASSERT_EQ(answer.start.size(), 1u);
  EXPECT_EQ(w.state.units.at(answer.start[0].unit).kind, UnitKind::kPrepare);
  w.Sync(worker, {w.Good(answer.start[0])}, {}, 0);
  w.WorkAll(worker);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
}

TEST(CoreDamage, AnImportedCaptureThatIsDamagedFailsItsCandidateAloneAndCanBeImportedAgain) {
  World w;
  RunRow spec = CaptureSpec(w, "r1", AddHead(w, "a"));
  spec.candidates.push_back(spec.candidates[0]);
  spec.candidates[1].label = "bad";
  spec.candidates[1].source.given_capture = AddCapture(w, "bad");
  const std::string run = w.Create(spec);
  const FakeWorker worker;
  const SyncAnswer answer = w.Sync(worker);
  LeaseResult failed = World::Bad(answer.start.at(0), "DOWNLOAD_CORRUPT", true);
  failed.damaged = {Sha256Hex("bad0")};
  w.Sync(worker, {failed}, {}, 0);
  EXPECT_EQ(w.state.runs.at(run).candidates[1].error.reason, "BLOB_CORRUPT");
  w.WorkAll(worker);
  EXPECT_EQ(w.StateOf(run), RunState::kSealing);
  EXPECT_EQ(w.state.files.at(Sha256Hex("capturebad"))[0].count(0), 0u);
  AddCapture(w, "bad");
  EXPECT_EQ(w.state.files.at(Sha256Hex("capturebad"))[0].count(0), 1u);
}

std::set<std::string> Unused(const World& w, bool sealed) {
  std::set<std::string> out;
  for (const UnusedCapture& capture : UnusedCaptures(w.state, {}, sealed)) out.insert(capture.id);
  return out;
}

TEST(CorePrune, WhatARunNeedsOrAReceiptNamesIsNeverDropped) {
  World w;
  const std::string loose = AddCapture(w, "loose");
  const std::string run = w.Create(CaptureSpec(w, "r1", AddHead(w, "a")));
  const std::string reference = w.state.runs.at(run).reference.given_capture;
  const std::string candidate = w.state.runs.at(run).candidates[0].source.given_capture;
  using Ids = std::set<std::string>;
  EXPECT_EQ(Unused(w, false), Ids{loose});
  EXPECT_EQ(Unused(w, true), Ids{loose});  // the run has not ended
  w.WorkAll(FakeWorker());
  EXPECT_EQ(Unused(w, true), Ids{loose});  // it is being sealed
  w.SealAll();
  EXPECT_EQ(w.StateOf(run), RunState::kSucceeded);
  EXPECT_EQ(Unused(w, false), Ids{loose});
  EXPECT_EQ(Unused(w, true), (Ids{loose, reference, candidate}));

  const auto files = UnusedCaptures(w.state, {loose, reference}, false);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].files, 4);
  EXPECT_EQ(files[0].bytes, 4u * 64);
  w.Do(DropCaptures{{loose, reference}, false});
  EXPECT_EQ(w.state.files.at(loose)[0].size(), 0u);
  EXPECT_EQ(w.state.files.at(reference)[0].size(), 4u);
  w.Do(DropCaptures{{candidate}, true});
  EXPECT_EQ(w.state.files.at(candidate)[0].size(), 0u);
  // What is stored says the same to the next process.
  State again;
  for (const Row& row : w.committed) again.Absorb(row);
  EXPECT_EQ(again.files.at(loose)[0].size(), 0u);
  EXPECT_EQ(again.files.at(reference)[0].size(), 4u);
}

TEST(CorePrune, ADroppedNativeCaptureIsMadeAgain) {
  World w;
  const std::string model = w.AddModel("ref");
  const std::string run = w.Create(w.Spec("r1", model, {model}));
  w.WorkAll(FakeWorker());
  w.SealAll();
  w.Do(DropCaptures{{w.state.runs.at(run).reference.capture}, true});
  RunRow fresh = w.Spec("r2", model, {model});
  fresh.fresh = true;
  const std::string second = w.Create(fresh);
  const auto kinds = w.WorkAll(FakeWorker());
  EXPECT_GT(Count(kinds, UnitKind::kCapture), 0);
  EXPECT_EQ(w.StateOf(second), RunState::kSealing);
}

TEST(Quota, OnePrincipalLeavesRoomInTheQueueForOthers) {
  World w;
  w.state.options.active_runs_max = 3;
  w.state.options.runs_per_principal_max = 2;
  const std::string ref = w.AddModel("ref"), cand = w.AddModel("cand");
  const auto create = [&](const std::string& request, const std::string& who) {
    return ReasonOf(w.Do(CreateRun{w.Spec(request, ref, {cand})}, who).status);
  };
  EXPECT_EQ(create("a1", "a"), "");
  EXPECT_EQ(create("a2", "a"), "");
  EXPECT_EQ(create("a3", "a"), "RUN_QUOTA");
  EXPECT_EQ(create("a2", "a"), "") << "the same request again is no new run";
  EXPECT_EQ(create("b1", "b"), "");
  EXPECT_EQ(create("b2", "b"), "QUEUE_FULL");
  const std::string first = w.state.run_order.begin()->second;
  ASSERT_TRUE(w.Do(CancelRun{first}, "a").status.ok());
  EXPECT_EQ(create("a3", "a"), "");
  EXPECT_EQ(create("a4", "a"), "QUEUE_FULL");
}

}  // namespace
}  // namespace assay
