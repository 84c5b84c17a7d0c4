#include "tests/sim/simulation.h"

#include <memory>
#include <vector>

#include "tests/sim/actors.h"

namespace assay::sim {
namespace {

constexpr int64_t kFaultEveryMs = 4'000, kCutMs = 60'000, kFullMs = 20'000, kSlowMs = 30'000;
constexpr int64_t kSlowSyncMs = 4'000, kClockStepMs = 3'600'000;
constexpr uint64_t kCrashWithin = 60;        // disk operations
constexpr int64_t kEndWithinMs = 3'600'000;  // of virtual time, once all is well
constexpr uint64_t kEndWithinSteps = 60'000;

class Simulation {
 public:
  Simulation(uint64_t seed, bool trace) : world_(seed, trace), coordinator_(&world_) {
    const char* kernels[] = {"a", "a", "a", "b"};
    for (int i = 0; i < 4; ++i) {
      workers_.push_back(std::make_unique<Worker>(&world_, &coordinator_,
                                                  "worker" + std::to_string(i), kernels[i]));
    }
    for (int i = 0; i < 2; ++i) {
      clients_.push_back(
          std::make_unique<Client>(&world_, &coordinator_, "client" + std::to_string(i)));
    }
  }

  SimResult Run(uint64_t fault_steps) {
    coordinator_.Boot();
    AddResourcesUntilThere(&world_, &coordinator_);
    for (auto& worker : workers_) worker->Begin();
    for (auto& client : clients_) client->Begin();
    ChooseFaults();
    FaultSoon();
    while (figures_.steps < fault_steps && Step()) {
    }
    if (!world_.oracle.failure()) Settle();
    if (!world_.oracle.failure()) world_.oracle.CheckLog();
    return Result();
  }

 private:
  bool Step() {
    ++figures_.steps;
    return world_.Step() && !world_.oracle.failure();
  }

  // What goes wrong in this world, and what does not.
  void ChooseFaults() {
    Random& r = world_.random;
    world_.network = {r.OneIn(2), r.OneIn(2), r.OneIn(2)};
    crashes_ = !r.OneIn(4);
    disk_ = r.OneIn(2);
    cuts_ = r.OneIn(2);
    for (auto& worker : workers_) {
      worker->SetHabits({r.OneIn(3), r.OneIn(4), r.OneIn(3), r.OneIn(2), r.OneIn(3)});
    }
  }

  void FaultSoon() {
    world_.After(world_.random.Between(1, kFaultEveryMs), [this] {
      if (!faults_) return;
      Fault();
      FaultSoon();
    });
  }

  void Fault() {
    Random& r = world_.random;
    switch (r.Below(10)) {
      case 0:
        if (crashes_ && coordinator_.up()) coordinator_.Crash("killed");
        return;
      case 1:
      case 2:
        if (crashes_) world_.disk.PlanCrash(1 + r.Below(kCrashWithin));
        return;
      case 3:
        if (!cuts_) return;
        world_.Trace([] { return "network: somebody is cut off"; });
        return world_.Partition(r.OneIn(3) ? "client0" : "worker" + std::to_string(r.Below(4)),
                                r.Between(1, kCutMs));
      case 4:
        if (disk_ && r.OneIn(4)) FillDisk();
        return;
      case 5:
        if (disk_) SlowDisk();
        return;
      case 6:
        if (disk_ && crashes_) LoseSync();
        return;
      case 7:
        if (disk_ && crashes_ && coordinator_.up() && r.OneIn(3)) TurnBit();
        return;
      case 8:
        world_.wall_skew_ms += r.Between(-kClockStepMs, kClockStepMs);
        return;
      default:
        return;
    }
  }

  void FillDisk() {
    world_.Trace([] { return "disk: full"; });
    world_.disk.SetFull(true);
    world_.After(world_.random.Between(1, kFullMs), [this] { world_.disk.SetFull(false); });
  }
  void SlowDisk() {
    coordinator_.SetSlow(world_.random.Between(0, kSlowSyncMs));
    world_.After(world_.random.Between(1, kSlowMs), [this] { coordinator_.SetSlow(0); });
  }
  // A sync of one of the two files lies, and the process ends soon after.
  void LoseSync() {
    if (world_.disk.crash_planned()) return;
    world_.disk.LieOnce(world_.random.OneIn(3) ? kAnchorFile : kLogFile);
    world_.disk.PlanCrash(1 + world_.random.Below(4));
  }
  void TurnBit() {
    coordinator_.Crash("power is lost");
    if (world_.disk.damaged()) return;  // one damage at a time
    const char* file = world_.random.OneIn(4) ? kAnchorFile : kLogFile;
    if (world_.disk.FlipBit(file))
      world_.Trace([&] { return std::string("disk: a bit of the ") + file + " turns"; });
  }

  // From here on all goes well: everything must end, and say how.
  void Settle() {
    world_.Trace([] { return "from here on all goes well"; });
    faults_ = false;
    world_.network = {};
    world_.HealAll();
    world_.disk.SetFull(false);
    world_.disk.PlanCrash(0);
    coordinator_.SetSlow(0);
    for (auto& worker : workers_) worker->SetHabits({});
    for (auto& client : clients_) client->Stop();
    const int64_t end = world_.now_ms() + kEndWithinMs;
    const uint64_t last = figures_.steps + kEndWithinSteps;
    while (!AllEnded()) {
      if (!Step()) return;
      if (world_.now_ms() > end || figures_.steps > last) return SayWhatHangs();
    }
  }

  bool AllEnded() const {
    if (!coordinator_.up() || !coordinator_.state().active_runs.empty()) return false;
    for (const auto& client : clients_) {
      if (client->waiting()) return false;
      for (const auto& [request, run] : client->runs()) {
        if (coordinator_.state().runs.count(run) == 0) return false;
      }
    }
    return true;
  }

  void SayWhatHangs() {
    std::string text = "not everything ended:";
    for (const std::string& id : coordinator_.state().active_runs) {
      text += " run " + id.substr(0, 6) + " is " +
              std::string(RunStateName(coordinator_.state().runs.at(id).state));
    }
    for (const auto& client : clients_) text += client->waiting() ? " a client waits" : "";
    world_.oracle.Fail(coordinator_.up() ? text : "the coordinator does not start");
  }

  SimResult Result() {
    const State& s = coordinator_.state();
    figures_.lives = coordinator_.lives();
    figures_.runs = s.runs.size();
    for (const auto& [id, unit] : s.units) figures_.results += unit.state == UnitState::kDone;
    figures_.receipts = world_.oracle.receipts();
    figures_.damaged = coordinator_.refused_damage();
    figures_.messages_lost = world_.dropped;
    figures_.refused = world_.oracle.late_results();
    for (const auto& worker : workers_) figures_.lies += worker->lies_told();
    return {world_.oracle.failure(), figures_, world_.lines()};
  }

  World world_;
  Coordinator coordinator_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Client>> clients_;
  Figures figures_;
  bool faults_ = true, crashes_ = false, disk_ = false, cuts_ = false;
};

}  // namespace

void Figures::Add(const Figures& o) {
  steps += o.steps;
  lives += o.lives;
  runs += o.runs;
  results += o.results;
  refused += o.refused;
  receipts += o.receipts;
  damaged += o.damaged;
  lies += o.lies;
  messages_lost += o.messages_lost;
}

SimResult Simulate(uint64_t seed, uint64_t fault_steps, bool trace) {
  return Simulation(seed, trace).Run(fault_steps);
}

}  // namespace assay::sim
