// One seed: a world with faults, then a world without, in which everything must end.

#ifndef ASSAY_TESTS_SIM_SIMULATION_H_
#define ASSAY_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace assay::sim {

struct Figures {
  uint64_t steps = 0, lives = 0, runs = 0, results = 0, refused = 0, receipts = 0, damaged = 0,
           lies = 0, messages_lost = 0;
  void Add(const Figures& other);
};

struct SimResult {
  std::optional<std::string> failure;
  Figures figures;
  std::deque<std::string> trace;  // only when asked for
};

// The same seed gives the same steps. At most about `fault_steps` steps with faults.
SimResult Simulate(uint64_t seed, uint64_t fault_steps, bool trace);

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_SIMULATION_H_
