// Random sequences of commands; after each step everything that must always hold is checked.

#include <gtest/gtest.h>

#include <random>

#include "server/core/apply.h"
#include "server/core/core_test_world.h"

namespace assay {
namespace {

using testing_world::FakeWorker;
using testing_world::World;

class Checker {
 public:
  void Check(const World& w) {
    const State& s = w.state;
    ASSERT_GE(s.epoch, epoch_);
    epoch_ = s.epoch;
    size_t leased = 0;
    for (const auto& [id, unit] : s.units) {
      ASSERT_EQ(s.ready_units.count(id), unit.state == UnitState::kReady ? 1u : 0u);
      if (unit.state == UnitState::kLeased) {
        ++leased;
        ASSERT_EQ(s.leases.count(unit.lease), 1u) << id;
        ASSERT_EQ(s.leases.at(unit.lease).unit, id);
        ASSERT_EQ(s.workers.at(s.leases.at(unit.lease).worker).leases.count(unit.lease), 1u);
      }
      if (unit.state == UnitState::kDone) {
        const auto [it, added] = done_.emplace(id, unit.result_sha256);
        ASSERT_EQ(it->second, unit.result_sha256) << "a result changed after it was accepted";
        int accepted = 0;
        for (const AttemptRow& attempt : unit.attempts) accepted += attempt.outcome == "done";
        ASSERT_EQ(accepted, 1);
      } else {
        ASSERT_EQ(done_.count(id), 0u) << "a finished unit was taken up again";
      }
    }
    ASSERT_EQ(leased, s.leases.size());
    std::map<std::string, size_t> active_of;
    for (const auto& [id, run] : s.runs) {
      ASSERT_EQ(s.active_runs.count(id), IsTerminal(run.state) ? 0u : 1u);
      if (!IsTerminal(run.state)) ++active_of[run.principal];
      if (const auto it = ended_.find(id); it != ended_.end()) {
        ASSERT_EQ(it->second, run.state);
      }
      if (IsTerminal(run.state)) ended_.emplace(id, run.state);
      if (run.state == RunState::kFailed) {
        ASSERT_FALSE(run.error.empty());
      }
      for (const CandidateRow& c : run.candidates) {
        if (c.state == CandidateState::kSealed) {
          ASSERT_EQ(s.reports.count(c.report), 1u);
        }
        if (c.state == CandidateState::kFailed) {
          ASSERT_FALSE(c.error.empty());
        }
      }
    }
    ASSERT_EQ(s.active_runs_of, active_of);
  }

  // Rows alone rebuild everything that must survive a crash.
  static void CheckRows(const World& w) {
    State rebuilt;
    for (const Row& row : w.committed) rebuilt.Absorb(row);
    ASSERT_EQ(rebuilt.units.size(), w.state.units.size());
    for (const auto& [id, unit] : w.state.units)
      ASSERT_EQ(EncodeRow(unit), EncodeRow(rebuilt.units.at(id)));
    ASSERT_EQ(rebuilt.runs.size(), w.state.runs.size());
    for (const auto& [id, run] : w.state.runs)
      ASSERT_EQ(EncodeRow(run), EncodeRow(rebuilt.runs.at(id)));
    ASSERT_EQ(EncodeRow(w.state.meta), EncodeRow(rebuilt.meta));
    ASSERT_EQ(rebuilt.reports.size(), w.state.reports.size());
  }

 private:
  uint64_t epoch_ = 0;
  std::map<uint64_t, std::string> done_;
  std::map<std::string, RunState> ended_;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {
    for (const char* name : {"m0", "m1", "m2", "m3"}) models_.push_back(w.AddModel(name));
    for (int i = 0; i < 3; ++i) {
      FakeWorker worker;
      worker.id = std::string("w").append(std::to_string(i));
      if (i == 2) worker.capture = worker.replay = R"({"kernels":"other"})";
      workers_.push_back(worker);
    }
  }

  void Step() {
    switch (Below(12)) {
      case 0:
        return CreateOne();
      case 1:
        if (!w.state.runs.empty() && Below(4) == 0)
          w.Do(CancelRun{std::next(w.state.runs.begin(),
                                   static_cast<std::ptrdiff_t>(Below(w.state.runs.size())))
                             ->first});
        return;
      case 2:
        w.now.mono_ms += static_cast<int64_t>(Below(20'000));
        w.now.unix_ms += 10;
        w.Do(Tick{});
        return;
      case 3:
        return w.SealAll();
      case 4:
        if (Below(20) == 0) Restart();
        return;
      case 5:
        if (Below(10) == 0) Reincarnate(Below(workers_.size()));
        return;
      default:
        return Talk(Below(workers_.size()));
    }
  }

  // All goes well from here: every run must end.
  void Settle() {
    for (int round = 0; round < 400 && !w.state.active_runs.empty(); ++round) {
      for (size_t i = 0; i < workers_.size(); ++i) {
        Reincarnate(i);
        w.WorkAll(workers_[i]);
      }
      w.SealAll();
      w.now.mono_ms += 1'000;
      w.Do(Tick{});
    }
  }

  World w;

 private:
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

  void CreateOne() {
    if (w.state.active_runs.size() > 3) return;
    std::vector<std::string> candidates;
    for (size_t i = 0; i <= Below(3); ++i) candidates.push_back(models_[Below(models_.size())]);
    RunRow run = w.Spec(std::string("q").append(std::to_string(serial_++)),
                        models_[Below(models_.size())], candidates);
    run.fresh = Below(2) == 0;
    w.Create(run);
  }

  void Restart() {
    State reborn;
    reborn.options = w.state.options;
    for (const Row& row : w.committed) reborn.Absorb(row);
    w.state = std::move(reborn);
    w.to_seal.clear();
    w.Do(Start{"x"});
  }

  void Reincarnate(size_t i) {
    workers_[i].incarnation = std::to_string(1'000'000'000'000'000 + ++incarnation_);
    held_[i].clear();
  }

  // A worker's call: results of what it holds, good, bad, late, twice or with other content;
  // perhaps new work.
  void Talk(size_t i) {
    std::vector<LeaseResult> results;
    std::vector<std::string> leases;
    std::vector<Grant> keep;
    for (const Grant& grant : held_[i]) {
      const size_t dice = Below(20);
      if (dice < 10) {
        results.push_back(w.Good(grant, dice == 0 ? "salt" : ""));
        if (dice < 3) late_.push_back(grant);
      } else if (dice == 10) {
        results.push_back(World::Bad(grant, "RANK_DIED", true));
      } else if (dice == 11) {
        results.push_back(World::Bad(grant, "MODEL_NOT_HERE", false));
      } else if (dice == 12 && Below(4) == 0) {
        results.push_back(
            World::Bad(grant, "NON_FINITE_INPUT", false, Below(2) == 0 ? "cand0" : "ref"));
      } else if (dice == 13) {
        late_.push_back(grant);  // forgotten now, delivered another time
      } else {
        leases.push_back(grant.lease);
        keep.push_back(grant);
      }
    }
    if (!late_.empty() && Below(3) == 0) {
      results.push_back(w.Good(late_.back(), Below(3) == 0 ? "other" : ""));
      late_.pop_back();
    }
    const Outcome outcome = w.TrySync(workers_[i], results, leases, static_cast<int64_t>(Below(3)));
    held_[i] = keep;
    if (!outcome.status.ok()) return;
    for (const Grant& grant : std::get<SyncAnswer>(outcome.answer).start) held_[i].push_back(grant);
  }

  std::mt19937_64 random_;
  std::vector<std::string> models_;
  std::vector<FakeWorker> workers_;
  std::map<size_t, std::vector<Grant>> held_;
  std::vector<Grant> late_;
  int serial_ = 0;
  int64_t incarnation_ = 0;
};

TEST(CoreRandom, InvariantsHoldAndEveryRunEnds) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    Checker checker;
    for (int step = 0; step < 400; ++step) {
      simulation.Step();
      checker.Check(simulation.w);
      if (testing::Test::HasFatalFailure()) return;
    }
    simulation.Settle();
    checker.Check(simulation.w);
    Checker::CheckRows(simulation.w);
    for (const std::string& id : simulation.w.state.active_runs) {
      ADD_FAILURE() << "run " << id
                    << " did not end: " << RunStateName(simulation.w.state.runs.at(id).state);
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace assay
