// assay_sim: many seeds of the deterministic simulation; tests/sim/run.sh has the usage.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/simulation.h"

namespace assay::sim {
namespace {

constexpr uint64_t kFaultSteps = 3'000;

// The trace of a seed that failed; it must fail in the same way again.
int Explain(uint64_t seed, const std::string& failure, uint64_t steps) {
  const SimResult again = Simulate(seed, kFaultSteps, /*trace=*/true);
  for (const std::string& line : again.trace) std::printf("%s\n", line.c_str());
  std::printf("FAILED at step %llu of seed %llu: %s\n", static_cast<unsigned long long>(steps),
              static_cast<unsigned long long>(seed), failure.c_str());
  const bool same = again.failure == failure && again.figures.steps == steps;
  std::printf(
      "%s\nagain: tests/sim/run.sh --steps 1 --seed %llu\n",
      same ? "The same seed failed again at the same step."
           : "THE SAME SEED DID NOT FAIL IN THE SAME WAY: the simulation is not deterministic.",
      static_cast<unsigned long long>(seed));
  return same ? 1 : 3;
}

int Main(int argc, char** argv) {
  uint64_t steps = 1'000'000, seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    char* end = nullptr;
    const uint64_t value = i + 1 < argc ? std::strtoull(argv[i + 1], &end, 10) : 0;
    if ((name != "--steps" && name != "--seed") || end == nullptr || *end != '\0') {
      std::fprintf(stderr, "usage: tests/sim/run.sh [--steps N] [--seed S]\n");
      return 2;
    }
    (name == "--steps" ? steps : seed) = value;
    ++i;
  }
  const auto start = std::chrono::steady_clock::now();
  Figures total;
  uint64_t seeds = 0;
  for (; total.steps < steps; ++seeds) {
    const SimResult result = Simulate(seed + seeds, kFaultSteps, /*trace=*/false);
    total.Add(result.figures);
    if (result.failure) return Explain(seed + seeds, *result.failure, result.figures.steps);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto u = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf(
      "sim: %llu steps, %llu seeds, %llu lives, %llu runs, %llu results, %llu late results, "
      "%llu lies, %llu receipts, %llu damaged stores refused, %llu messages lost, %.1f s, "
      "0 failures\n",
      u(total.steps), u(seeds), u(total.lives), u(total.runs), u(total.results), u(total.refused),
      u(total.lies), u(total.receipts), u(total.damaged), u(total.messages_lost), took.count());
  return 0;
}

}  // namespace
}  // namespace assay::sim

int main(int argc, char** argv) { return assay::sim::Main(argc, argv); }
