// Workers that compute, die, lie, repeat themselves and come back late, and clients that ask again
// until they are answered.

#ifndef ASSAY_TESTS_SIM_ACTORS_H_
#define ASSAY_TESTS_SIM_ACTORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/core/apply.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/world.h"

namespace assay::sim {

inline constexpr int64_t kSuiteContexts = 4, kContextLength = 9;

struct WorkerHabits {
  bool dies = false, lies = false, repeats = false, late = false, fails = false;
};

class Worker {
 public:
  Worker(World* world, Coordinator* coordinator, std::string id, std::string kernels);
  void Begin();  // polls from now on
  void SetHabits(const WorkerHabits& habits) { habits_ = habits; }
  uint64_t lies_told() const { return lies_; }

 private:
  struct Held {
    UnitRow unit;
    std::string identity_json;  // of the unit's capture
    std::string operands;       // of the unit's run
    bool done = false;
    LeaseResult result;
  };
  void Poll();
  void OnAnswer(const std::string& incarnation, const SyncAnswer& answer,
                const std::vector<Held>& started);
  void Finish(const std::string& incarnation, const std::string& lease);
  LeaseResult Compute(const std::string& lease, const Held& held);
  void Reincarnate();

  World* world_;
  Coordinator* coordinator_;
  std::string id_, kernels_, incarnation_;
  uint64_t births_ = 0, lies_ = 0;
  WorkerHabits habits_;
  std::map<std::string, Held> held_;  // by lease
  std::vector<LeaseResult> old_;      // results of leases that may be long gone
};

class Client {
 public:
  Client(World* world, Coordinator* coordinator, std::string id);
  void Begin();
  // Asks for nothing new from now on.
  void Stop() { stopped_ = true; }
  // Every run that it was told of, and whether all of them are known to have an answer.
  const std::map<std::string, std::string>& runs() const { return runs_; }
  bool waiting() const { return !pending_.request_id.empty(); }

 private:
  void Act();
  void SendCreate();
  void Ask(const std::string& run);
  void SendCancel(const std::string& run);

  World* world_;
  Coordinator* coordinator_;
  std::string id_;
  RunRow pending_;  // asked for and not answered yet
  uint64_t serial_ = 0;
  bool stopped_ = false;
  std::map<std::string, std::string> runs_;  // request id -> run
};

// Puts suite and models there; asks again until they are.
void AddResourcesUntilThere(World* world, Coordinator* coordinator);
std::string SimModel(size_t i);
std::string SimSuite();
inline constexpr size_t kModels = 4;

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_ACTORS_H_
