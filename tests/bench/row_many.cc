#include "tests/bench/replay_rows.h"
#include "tests/bench/replay_runs.h"

namespace assay::bench {
namespace {

// The reference with candidate `k` alone, as a single run has it.
ReplayPlan OnlyCandidate(const ReplayPlan& all, size_t k) {
  ReplayPlan plan = all;
  plan.comparisons = {all.comparisons[k]};
  plan.operands = {all.operands[0], all.operands[k + 1]};
  return plan;
}

}  // namespace

Json ManyRow(const Flags& flags) {
  Shape shape;
  shape.vocab = Number(flags, "--vocab");
  shape.hidden = Number(flags, "--hidden");
  shape.rows = Number(flags, "--positions");
  shape.candidates = static_cast<int>(Number(flags, "--candidates"));
  const Data data(shape);
  auto single = CreateCollective({}).value();
  // One engine for all: the single runs get their head packed for nothing, which real ones, each a
  // process of its own, do not.
  const auto engine = ReplayEngine::Create(static_cast<int>(Number(flags, "--threads"))).value();
  const auto run = [&](const ReplayPlan& plan) {
    const auto result = engine->Run(plan, *single, nullptr, nullptr);
    if (!result.ok()) Die(result.status().ToString());
  };
  std::vector<ReplayPlan> alone;
  for (size_t k = 0; k < data.plan.comparisons.size(); ++k) {
    alone.push_back(OnlyCandidate(data.plan, k));
  }
  run(data.plan);  // packs the head and touches all memory
  run(alone[0]);
  Samples together, apart;
  for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) {
    together.Take([&] { run(data.plan); });
    apart.Take([&] {
      for (const ReplayPlan& plan : alone) run(plan);
    });
  }
  return {{"candidates", shape.candidates},
          {"ratio", Ratio(apart, together)},
          {"together", together.ToJson()},
          {"apart", apart.ToJson()}};
}

}  // namespace assay::bench
