// The shell around the core: leases whose documents cannot be made, vetting of results, execution
// records.

#include "server/engine/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "server/engine/seal_inputs.h"
#include "server/engine/vetting.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"
#include "storage/report/positions.h"

namespace assay {
namespace {

constexpr uint64_t kVocab = 49152, kHidden = 2;

std::string TempDir() {
  std::string name = "/tmp/assay_engineXXXXXX";
  return ::mkdtemp(name.data());
}

std::unique_ptr<Engine> Open(const std::string& dir, Clock* clock = nullptr) {
  EngineOptions options;
  options.clock = clock;
  options.data_dir = dir;
  options.min_free_bytes = 0;
  options.ballast_bytes = 0;
  auto engine = Engine::Open(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

std::string_view Text(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A head file in the store and what a worker says about it.
Json StoreHead(BlobStore& blobs) {
  const std::vector<uint8_t> head(2 * kVocab * kHidden, 0x3f);
  SafetensorsBuilder builder;
  builder.Add("lm_head.weight", DType::kBF16, {kVocab, kHidden}, head);
  const std::string bytes = builder.Build();
  return {{"facts", {{"architecture", "llama"}}},
          {"head",
           {{"sha256", PutBlob(blobs, bytes).value()},
            {"bytes", bytes.size()},
            {"content_sha256", Sha256Hex(Text(head))},
            {"tensor", "lm_head.weight"},
            {"vocab", kVocab},
            {"hidden", kHidden}}}};
}

Synchronize Call(std::vector<LeaseResult> results) {
  Synchronize call;
  call.worker = "w0";
  call.incarnation = "0123456789abcdef";
  call.replay_identity = R"({"kernels":"r"})";
  call.capture_identity = R"({"kernels":"c"})";
  call.free_slots = 1;
  call.results = std::move(results);
  return call;
}

Suite Panel(std::string* dir) {
  const char* source = std::getenv("ASSAY_SOURCE_DIR");
  *dir = std::string(source == nullptr ? "." : source) + "/deploy/panel/suite";
  return ReadSuite(*dir).value();
}

// A run of one context between two captures of one model, which first needs a prepare unit; its id.
std::string CreateOneRun(Engine& engine) {
  std::string panel;
  const Suite suite = Panel(&panel);
  for (const SuiteContext& c : suite.contexts)
    EXPECT_TRUE(PutBlob(engine.blobs(), ReadFile(panel + "/" + c.file, 1 << 20).value()).ok());
  const std::string manifest = ReadFile(panel + "/suite-manifest.json", 1 << 26).value();
  const SuiteRow row = engine.AddSuite("lab", PutBlob(engine.blobs(), manifest).value()).value();
  ModelRow model;
  model.id = Sha256Hex("model");
  model.manifest_json =
      R"({"files":[{"path":"m.gguf","sha256":")" + model.id + R"(","size":1}],"transform":""})";
  EXPECT_TRUE(engine.Execute({"local", AddResources{{model}}}).status.ok());
  RunRow run;
  run.request_id = "r1";
  run.spec_sha256 = Sha256Hex("spec");
  run.suite = row.id;
  run.contexts = {suite.contexts[0].index};
  run.context_length = suite.context_length;
  run.reference.model = model.id;
  run.candidates.resize(1);
  run.candidates[0].label = "c";
  run.candidates[0].source.model = model.id;
  const Outcome created = engine.Execute({"local", CreateRun{run}});
  EXPECT_TRUE(created.status.ok()) << created.status;
  return std::get<RunAnswer>(created.answer).run;
}

// A token file that is gone is met when the unit's document is made, after the lease was given.
TEST(Engine, AUnitWhoseDocumentCannotBeMadeIsNotOfferedForEver) {
  const std::string dir = TempDir();
  std::string panel, run_id;
  const Suite suite = Panel(&panel);
  {
    const auto engine = Open(dir);
    run_id = CreateOneRun(*engine);
    const auto prepare = engine->Sync("worker", Call({}), 0, [] { return false; });
    ASSERT_TRUE(prepare.ok()) << prepare.status();
    ASSERT_EQ(prepare->start.size(), 1u);
    LeaseResult result;
    result.lease = prepare->start[0].grant.lease;
    result.result_json = StoreHead(engine->blobs()).dump();
    Synchronize call = Call({result});
    call.free_slots = 0;
    const auto answer = engine->Sync("worker", call, 0, [] { return false; });
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->answer.acks.at(0).kind, AckKind::kAccepted) << answer->answer.acks[0].message;
    ASSERT_EQ(::unlink(engine->blobs().LocalPath(suite.contexts[0].token_sha256)->c_str()), 0);
  }
  const auto engine = Open(dir);  // with nothing in memory
  for (int i = 0; i < 10; ++i) {
    const auto answer = engine->Sync("worker", Call({}), 0, [] { return false; });
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->start.empty());
    EXPECT_TRUE(answer->answer.start.empty());
  }
  const RunRow run = engine->Read([&](const State& s) { return s.runs.at(run_id); });
  EXPECT_EQ(run.state, RunState::kFailed);
  EXPECT_EQ(run.error.reason, "BLOB_MISSING");
  EXPECT_NE(run.error.message.find(suite.contexts[0].token_sha256), std::string::npos);
  ASSERT_TRUE(RemoveTree(dir).ok());
}

class FrozenClock : public Clock {
 public:
  int64_t UnixMillis() override { return 1'000'000; }
  int64_t MonotonicMillis() override { return 1'000; }
};

// One unit wakes one of the polls; it must reach the one that can take it. Time stands still, so
// that nobody looks again by itself.
TEST(Engine, AUnitReachesTheWaitingWorkerThatCanTakeIt) {
  const std::string dir = TempDir();
  FrozenClock clock;
  {
    const auto engine = Open(dir, &clock);
    std::atomic<bool> stop{false};
    std::vector<std::thread> unable;
    constexpr size_t kUnable = 3;
    constexpr int kLooksMax = 100;  // then it has waited in vain
    const auto until_waiting = [&](size_t polls) {
      while (engine->waiting_polls() != polls) ::usleep(1000);
    };
    for (size_t i = 0; i < kUnable; ++i) {
      unable.emplace_back([&, i] {
        Synchronize call = Call({});
        call.worker = "unable" + std::to_string(i);
        call.free_slots = 0;
        const auto answer = engine->Sync("worker", call, 10'000, [&] { return stop.load(); });
        EXPECT_EQ(ReasonOf(answer.status()), "CALL_CANCELLED");
      });
    }
    until_waiting(kUnable);
    std::thread able([&] {
      const auto answer = engine->Sync("worker", Call({}), 10'000,
                                       [looks = 0]() mutable { return ++looks > kLooksMax; });
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->start.size(), 1u);
    });
    until_waiting(kUnable + 1);
    CreateOneRun(*engine);
    able.join();
    until_waiting(kUnable);
    stop = true;
    for (std::thread& thread : unable) thread.join();
  }
  ASSERT_TRUE(RemoveTree(dir).ok());
}

TEST(Vetting, AHeadMustBeTheOneThatTheWorkerSays) {
  const std::string dir = TempDir();
  const auto engine = Open(dir);
  UnitExpectation expected;
  expected.unit.kind = UnitKind::kPrepare;
  const Json good = StoreHead(engine->blobs());
  EXPECT_TRUE(VetResult(engine->blobs(), expected, good.dump()).ok());
  const auto reason = [&](const char* field, const Json& value) {
    Json bad = good;
    bad["head"][field] = value;
    return ReasonOf(VetResult(engine->blobs(), expected, bad.dump()));
  };
  EXPECT_EQ(reason("content_sha256", Sha256Hex("another head")), "RESULT_INVALID");
  EXPECT_EQ(reason("vocab", kVocab - 1), "RESULT_INVALID");
  EXPECT_EQ(reason("hidden", kHidden + 1), "RESULT_INVALID");
  EXPECT_EQ(reason("bytes", 5), "RESULT_INVALID");
  EXPECT_EQ(reason("tensor", "other"), "HEAD_INVALID");
  EXPECT_EQ(reason("sha256", Sha256Hex("nothing")), "RESULT_BLOB_MISSING");
  ASSERT_TRUE(RemoveTree(dir).ok());
}

TEST(Vetting, AReplayMustHoldEveryArrayThatSealingNeeds) {
  const std::string dir = TempDir();
  const auto engine = Open(dir);
  UnitExpectation expected;
  expected.unit.kind = UnitKind::kReplay;
  expected.unit.contexts = {7};
  expected.comparisons = {"cand0/own"};
  expected.rows = 3;
  const auto reason = [&](uint64_t rows, std::string_view leave_out) {
    SafetensorsBuilder builder;
    for (const std::string_view output : kF64Outputs) {
      if (output == leave_out) continue;
      builder.Add("cand0/own|000007|" + std::string(output), DType::kF64, {rows},
                  std::vector<uint8_t>(rows * 8));
    }
    for (const std::string_view output : kI32Outputs) {
      builder.Add("cand0/own|000007|" + std::string(output), DType::kI32, {rows},
                  std::vector<uint8_t>(rows * 4));
    }
    const std::string bytes = builder.Build();
    const Json result = {{"sha256", PutBlob(engine->blobs(), bytes).value()},
                         {"bytes", bytes.size()}};
    return ReasonOf(VetResult(engine->blobs(), expected, result.dump()));
  };
  EXPECT_EQ(reason(3, ""), "");
  EXPECT_EQ(reason(3, "jsd_bits"), "POSITIONS_INVALID");
  EXPECT_EQ(reason(2, ""), "POSITIONS_INVALID");
  expected.comparisons.push_back("cand0/shared");
  EXPECT_EQ(reason(3, ""), "POSITIONS_INVALID");
  ASSERT_TRUE(RemoveTree(dir).ok());
}

// Large models count more multiply-adds than canonical JSON can hold as a number.
TEST(Execution, CountersBeyondTheIntegersOfJsonAreKept) {
  SealRows rows;
  rows.run.candidates.resize(1);
  UnitRow unit;
  unit.kind = UnitKind::kReplay;
  unit.state = UnitState::kDone;
  AttemptRow attempt;
  attempt.counters_json = R"([{"multiply_adds":26500000000000000,"weight_bytes":12}])";
  attempt.host_json = R"({"cpus":2,"odd":-9100000000000000})";
  unit.attempts = {attempt};
  rows.replay = {unit};
  const auto text = MakeExecution(rows, Sha256Hex("report"), "build");
  ASSERT_TRUE(text.ok()) << text.status();
  const Json json = ParseJson(*text, "execution").value();
  const Json& kept = json["units"][0]["attempts"][0];
  EXPECT_EQ(kept["counters"][0]["multiply_adds"], "26500000000000000");
  EXPECT_EQ(kept["counters"][0]["weight_bytes"], 12);
  EXPECT_EQ(kept["host"]["odd"], "-9100000000000000");
}

}  // namespace
}  // namespace assay
