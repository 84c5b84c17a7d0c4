// A small world for tests of the core: a state, a clock, workers that answer leases. No disk, no
// network.

#ifndef ASSAY_SERVER_CORE_CORE_TEST_WORLD_H_
#define ASSAY_SERVER_CORE_CORE_TEST_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "server/core/apply.h"
#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/format/suite.h"

namespace assay::testing_world {

inline constexpr int64_t kContextLength = 9;

struct FakeWorker {
  std::string id = "w0";
  std::string incarnation = "0000000000000001";
  std::string replay = R"({"kernels":"r"})";
  std::string capture = R"({"kernels":"c"})";
  bool draining = false;
};

class World {
 public:
  World() {
    state.options.model_wait_ms = 5'000;
    state.options.worker_wait_ms = 60'000;
    state.options.unit_contexts = 2;
    Do(Start{"store"});
    SuiteRow suite;
    suite.id = Sha256Hex("suite");
    suite.suite_token_sha256 = Sha256Hex("tokens");
    suite.contexts = 4;
    suite.context_length = kContextLength;
    Do(AddResources{{suite}});
    suite_id = suite.id;
  }

  Outcome Do(decltype(Command::body) body, const std::string& who = "local") {
    Outcome outcome = Apply(state, {who, std::move(body)}, now);
    committed.insert(committed.end(), outcome.rows.begin(), outcome.rows.end());
    for (const std::string& run : outcome.effects.seal) to_seal.push_back(run);
    return outcome;
  }

  std::string AddModel(const std::string& name) {
    ModelRow model;
    model.id = Sha256Hex(name);
    model.manifest_json =
        R"({"files":[{"path":"m","sha256":")" + Sha256Hex(name) + R"(","size":1}]})";
    Do(AddResources{{model}});
    return model.id;
  }

  RunRow Spec(const std::string& request, const std::string& reference,
              const std::vector<std::string>& candidates) {
    RunRow run;
    run.request_id = request;
    run.spec_sha256 = Sha256Hex(request + "spec");
    run.suite = suite_id;
    run.contexts = {0, 1, 2, 3};
    run.sentinels = {1};
    run.context_length = kContextLength;
    run.max_token = 5;
    run.reference.model = reference;
    for (size_t i = 0; i < candidates.size(); ++i) {
      CandidateRow candidate;
      candidate.label = std::string("c").append(std::to_string(i));
      candidate.source.model = candidates[i];
      run.candidates.push_back(candidate);
    }
    return run;
  }

  std::string Create(const RunRow& run) {
    const Outcome outcome = Do(CreateRun{run});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    return outcome.status.ok() ? std::get<RunAnswer>(outcome.answer).run : "";
  }

  SyncAnswer Sync(const FakeWorker& w, std::vector<LeaseResult> results = {},
                  std::vector<std::string> leases = {}, int64_t slots = 1) {
    const Outcome outcome = TrySync(w, std::move(results), std::move(leases), slots);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    return outcome.status.ok() ? std::get<SyncAnswer>(outcome.answer) : SyncAnswer{};
  }

  Outcome TrySync(const FakeWorker& w, std::vector<LeaseResult> results = {},
                  std::vector<std::string> leases = {}, int64_t slots = 1) {
    Synchronize sync;
    sync.worker = w.id;
    sync.incarnation = w.incarnation;
    sync.replay_identity = w.replay;
    sync.capture_identity = w.capture;
    sync.draining = w.draining;
    sync.free_slots = slots;
    sync.results = std::move(results);
    for (const std::string& lease : leases) sync.leases.push_back({lease, 0, 1});
    return Do(std::move(sync), "worker:" + w.id);
  }

  // What a good worker answers. `salt` makes another result.
  std::string ResultOf(const UnitRow& unit, const std::string& salt = "") const {
    Json json = Json::object();
    switch (unit.kind) {
      case UnitKind::kPrepare:
        json["facts"] = {{"vocab", 10}};
        json["head"] = {{"sha256", Sha256Hex("headfile" + unit.model)},
                        {"bytes", 100},
                        {"content_sha256", Sha256Hex("head" + unit.model)},
                        {"tensor", "lm_head.weight"},
                        {"vocab", vocab_of.count(unit.model) != 0 ? vocab_of.at(unit.model) : 10},
                        {"hidden", 4}};
        break;
      case UnitKind::kCapture:
      case UnitKind::kRepeat: {
        json["files"] = Json::array();
        for (const int64_t index : unit.contexts) {
          json["files"].push_back(
              {{"index", index},
               {"sha256", Sha256Hex("hidden" + unit.model + std::to_string(index) + salt)},
               {"bytes", 64},
               {"rows", kContextLength - 1},
               {"width", 4}});
        }
        json["identity"] =
            ParseJson(state.captures.at(unit.capture).identity_json, "identity").value();
        break;
      }
      case UnitKind::kReplay:
      case UnitKind::kNoise:
        json["sha256"] = Sha256Hex("positions" +
                                   std::to_string(unit.checks != 0 ? unit.checks : unit.id) + salt);
        json["bytes"] = 10;
        json["backend"] = backend;
        break;
    }
    return json.dump();
  }

  LeaseResult Good(const Grant& grant, const std::string& salt = "") const {
    LeaseResult result;
    result.lease = grant.lease;
    result.result_json = ResultOf(state.units.at(grant.unit), salt);
    return result;
  }
  static LeaseResult Bad(const Grant& grant, const std::string& reason, bool retryable,
                         const std::string& operand = "") {
    LeaseResult result;
    result.lease = grant.lease;
    result.error = {"INVALID_ARGUMENT", reason, "it went wrong"};
    result.retryable = retryable;
    result.error_operand = operand;
    return result;
  }

  // Works until nothing is given any more. Kinds of units seen, in order.
  std::vector<UnitKind> WorkAll(const FakeWorker& w) {
    std::vector<UnitKind> kinds;
    SyncAnswer answer = Sync(w);
    while (!answer.start.empty()) {
      const Grant grant = answer.start.front();
      kinds.push_back(state.units.at(grant.unit).kind);
      answer = Sync(w, {Good(grant)});
    }
    return kinds;
  }

  // Stands in for the sealer: every computed candidate gets a report.
  void SealAll() {
    while (!to_seal.empty()) {
      const std::string run = to_seal.back();
      to_seal.pop_back();
      for (size_t i = 0; i < state.runs.at(run).candidates.size(); ++i) {
        const RunRow row = state.runs.at(run);
        if (row.state != RunState::kSealing || row.candidates[i].state != CandidateState::kComputed)
          continue;
        SealDone done;
        done.run = run;
        done.candidate = i;
        done.report.id = Sha256Hex("report" + row.candidates[i].fingerprint);
        done.report.fingerprint = row.candidates[i].fingerprint;
        done.report.run = run;
        done.report.receipt = done.receipt.id =
            Sha256Hex("receipt" + row.candidates[i].fingerprint);
        done.receipt.report = done.report.id;
        done.log_size = state.meta.log_size + 1;
        EXPECT_TRUE(Do(done, "coordinator").status.ok());
      }
    }
  }

  // The suite's contexts as the coordinator reads them for a unit's document.
  static Suite Tokens() {
    Suite suite;
    for (int64_t i = 0; i < 4; ++i) {
      SuiteContext context;
      context.index = i;
      context.tokens = {0, 1, 2, 3, 4, 5, 0, 1, 2};
      suite.contexts.push_back(context);
    }
    return suite;
  }

  RunState StateOf(const std::string& run) const { return state.runs.at(run).state; }

  State state;
  Now now{1'000'000, 1'000};
  std::vector<Row> committed;  // everything ever committed, in order
  std::vector<std::string> to_seal;
  std::string suite_id;
  std::map<std::string, int64_t> vocab_of;
  std::string backend = "cpu-bf16";  // that workers say their replays used
};

inline int Count(const std::vector<UnitKind>& kinds, UnitKind kind) {
  return static_cast<int>(std::count(kinds.begin(), kinds.end(), kind));
}

inline std::string LastReason(const World& w, const std::string& run) {
  std::string reason;
  for (const Row& row : w.committed) {
    if (const auto* e = std::get_if<EventRow>(&row); e != nullptr && e->run == run)
      reason = e->reason;
  }
  return reason;
}

inline bool HasNote(const World& w, const std::string& reason) {
  return std::any_of(w.committed.begin(), w.committed.end(), [&](const Row& row) {
    const auto* e = std::get_if<EventRow>(&row);
    return e != nullptr && e->reason == reason;
  });
}

}  // namespace assay::testing_world

#endif  // ASSAY_SERVER_CORE_CORE_TEST_WORLD_H_
