#include <iterator>
#include <utility>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "tests/sim/actors.h"

namespace assay::sim {
namespace {

constexpr int64_t kThinkMs = 5'000, kRetryMs = 1'000;

}  // namespace

std::string SimModel(size_t i) { return Sha256Hex("model" + std::to_string(i)); }
std::string SimSuite() { return Sha256Hex("suite"); }

void AddResourcesUntilThere(World* world, Coordinator* coordinator) {
  AddResources command;
  SuiteRow suite;
  suite.id = SimSuite();
  suite.suite_token_sha256 = Sha256Hex("tokens");
  suite.contexts = kSuiteContexts;
  suite.context_length = kContextLength;
  command.rows.emplace_back(suite);
  for (size_t i = 0; i < kModels; ++i) {
    ModelRow model;
    model.id = SimModel(i);
    model.manifest_json = R"({"files":[]})";
    command.rows.emplace_back(model);
  }
  coordinator->Deliver({"local", command}, nullptr);
  world->After(kRetryMs, [world, coordinator] {
    if (coordinator->state().models.size() < kModels) AddResourcesUntilThere(world, coordinator);
  });
}

Client::Client(World* world, Coordinator* coordinator, std::string id)
    : world_(world), coordinator_(coordinator), id_(std::move(id)) {}

void Client::Begin() {
  world_->After(world_->random.Between(0, kThinkMs), [this] { Act(); });
}

void Client::Act() {
  Random& random = world_->random;
  if (waiting()) {
    SendCreate();  // the same request again
  } else if (!stopped_ && (runs_.empty() || random.OneIn(3))) {
    pending_.request_id = id_ + "-" + std::to_string(++serial_);
    pending_.spec_sha256 = Sha256Hex(pending_.request_id);
    pending_.suite = SimSuite();
    pending_.contexts = {0, 1, 2, 3};
    pending_.sentinels = {1};
    pending_.context_length = kContextLength;
    pending_.max_token = 5;
    pending_.fresh = random.OneIn(2);
    pending_.reference.model = SimModel(random.Below(kModels));
    pending_.candidates.clear();
    const size_t candidates = 1 + random.Below(3);
    for (size_t i = 0; i < candidates; ++i) {
      CandidateRow candidate;
      candidate.label = "c" + std::to_string(i);
      candidate.source.model = SimModel(random.Below(kModels));
      pending_.candidates.push_back(candidate);
    }
    SendCreate();
  } else if (!runs_.empty()) {
    const auto run =
        std::next(runs_.begin(), static_cast<std::ptrdiff_t>(random.Below(runs_.size())));
    if (!stopped_ && random.OneIn(12)) {
      SendCancel(run->second);
    } else {
      Ask(run->second);
    }
  }
  world_->After(waiting() ? kRetryMs : random.Between(10, kThinkMs), [this] { Act(); });
}

void Client::SendCreate() {
  world_->Trace([&] { return id_ + " -> create run " + pending_.request_id; });
  world_->Send(id_, [this, run = pending_] {
    coordinator_->Deliver({"local", CreateRun{run}}, [this, request = run.request_id](
                                                         const Outcome& outcome, const State&) {
      const auto* answer = std::get_if<RunAnswer>(&outcome.answer);
      const std::string id = answer == nullptr ? "" : answer->run;
      const bool later = ReasonOf(outcome.status) == "SUITE_UNKNOWN" ||
                         ReasonOf(outcome.status) == "MODEL_UNKNOWN";
      if (id.empty() && !later)
        return world_->oracle.Fail("a run was refused: " + MessageOf(outcome.status));
      if (id.empty()) return;
      world_->Send(id_, [this, request, id] {
        const auto [it, added] = runs_.emplace(request, id);
        if (!added && it->second != id)
          world_->oracle.Fail("request " + request + " became two runs");
        if (pending_.request_id == request) pending_.request_id.clear();
      });
    });
  });
}

void Client::Ask(const std::string& run) {
  world_->Send(id_, [this, run] {
    coordinator_->Look([this, run](const State& s) {
      const auto it = s.runs.find(run);
      world_->oracle.OnRunSeen(run, it == s.runs.end() ? nullptr : &it->second, true);
    });
  });
}

void Client::SendCancel(const std::string& run) {
  world_->Trace([&] { return id_ + " -> cancel run " + run.substr(0, 6); });
  world_->Send(id_, [this, run] {
    coordinator_->Deliver(
        {"local", CancelRun{run}}, [this, run](const Outcome& outcome, const State& s) {
          if (!outcome.status.ok())
            return world_->oracle.Fail("cancelling a run that is there was refused");
          const RunState state = s.runs.at(run).state;
          if (!IsTerminal(state) && state != RunState::kSealing)
            world_->oracle.Fail("a cancelled run goes on");
        });
  });
}

}  // namespace assay::sim
