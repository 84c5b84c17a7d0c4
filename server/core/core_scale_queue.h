// A core in memory with runs of 32 replay units queued, worked off by 16 workers: for the test and
// the benchmark of what a unit costs among many.

#ifndef ASSAY_SERVER_CORE_CORE_SCALE_QUEUE_H_
#define ASSAY_SERVER_CORE_CORE_SCALE_QUEUE_H_

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/core/apply.h"
#include "storage/base/digest.h"

namespace assay {

inline constexpr int64_t kUnitsPerRun = 32, kContextLength = 9;
inline constexpr int kWorkers = 16;

class ScaleQueue {
 public:
  explicit ScaleQueue(int64_t runs) {
    state_.options.active_runs_max = static_cast<size_t>(runs);  // more than a coordinator takes
    Do("coordinator", Start{"store"});
    SuiteRow suite;
    suite.id = Sha256Hex("suite");
    suite.contexts = kUnitsPerRun;
    suite.context_length = kContextLength;
    HeadRow head;
    head.id = Sha256Hex("head");
    head.vocab = 10;
    head.hidden = 4;
    AddResources add{{suite, head}};
    for (const char* name : {"reference", "candidate"}) AddCapture(name, &add);
    Do("local", add);
    for (int64_t i = 0; i < runs; ++i) Do("local", CreateRun{Spec(i)});
  }

  // Until every unit is done; rows looked at for each unit. Throws when one is not done.
  double Work() {
    const uint64_t before = state_.counters.rows_visited;
    std::map<int, std::vector<Grant>> held;
    int64_t done = 0;
    for (bool any = true; any;) {
      any = false;
      for (int w = 0; w < kWorkers; ++w) {
        Synchronize sync;
        sync.worker = "w" + std::to_string(w);
        sync.incarnation = "0123456789abcdef";
        sync.replay_identity = sync.capture_identity = R"({"kernels":"k"})";
        sync.free_slots = 2;
        for (const Grant& grant : held[w]) {
          LeaseResult result;
          result.lease = grant.lease;
          result.result_json = R"({"backend":"cpu-f32","bytes":10,"sha256":")" +
                               Sha256Hex(std::to_string(grant.unit)) + R"("})";
          sync.results.push_back(result);
        }
        const Outcome outcome = Do("worker", sync);
        const auto& answer = std::get<SyncAnswer>(outcome.answer);
        for (const Ack& ack : answer.acks) done += ack.kind == AckKind::kAccepted;
        held[w] = answer.start;
        any = any || !answer.start.empty();
      }
      now_.mono_ms += 10;
      Do("coordinator", Tick{});
    }
    if (done != units()) throw std::runtime_error(std::to_string(done) + " units were done");
    return static_cast<double>(state_.counters.rows_visited - before) / static_cast<double>(done);
  }

  int64_t units() const { return static_cast<int64_t>(state_.units.size()); }

 private:
  Outcome Do(const char* who, decltype(Command::body) body) {
    Outcome outcome = Apply(state_, {who, std::move(body)}, now_);
    if (!outcome.status.ok()) throw std::runtime_error(outcome.status.ToString());
    return outcome;
  }

  static void AddCapture(const std::string& name, AddResources* add) {
    CaptureRow capture;
    capture.id = Sha256Hex(name);
    capture.suite = Sha256Hex("suite");
    capture.cut_point = "after_final_rmsnorm_before_lm_head";
    capture.origin = "ingest";
    capture.identity_json = "{}";
    add->rows.emplace_back(capture);
    for (int64_t i = 0; i < kUnitsPerRun; ++i) {
      CaptureFileRow file;
      file.capture = capture.id;
      file.index = i;
      file.sha256 = Sha256Hex(name + std::to_string(i));
      file.width = 4;
      add->rows.emplace_back(file);
    }
  }

  static RunRow Spec(int64_t i) {
    RunRow run;
    run.request_id = "r" + std::to_string(i);
    run.spec_sha256 = Sha256Hex(run.request_id);
    run.suite = Sha256Hex("suite");
    run.context_length = kContextLength;
    run.unit_contexts = 1;
    run.fresh = true;
    for (int64_t c = 0; c < kUnitsPerRun; ++c) run.contexts.push_back(c);
    run.reference.given_capture = Sha256Hex("reference");
    run.reference.given_head = Sha256Hex("head");
    CandidateRow candidate;
    candidate.label = "c";
    candidate.source.given_capture = Sha256Hex("candidate");
    candidate.source.given_head = Sha256Hex("head");
    run.candidates.push_back(candidate);
    return run;
  }

  State state_;
  Now now_{1'000'000, 1'000};
};

}  // namespace assay

#endif  // ASSAY_SERVER_CORE_CORE_SCALE_QUEUE_H_
