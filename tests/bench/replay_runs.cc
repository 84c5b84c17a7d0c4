#include "tests/bench/replay_runs.h"

#include <algorithm>

namespace assay::bench {

WholeReplay::WholeReplay(const ReplayPlan& plan, int threads, Collective& collective)
    : plan_(plan), collective_(collective), engine_(ReplayEngine::Create(threads).value()) {}

void WholeReplay::Run() {
  const auto result = engine_->Run(plan_, collective_, nullptr, nullptr);
  if (!result.ok()) Die(result.status().ToString());
}

ProductsAlone::ProductsAlone(const ReplayPlan& plan, int threads)
    : single_(CreateCollective({}).value()), job_(ResolveJob(plan, 0, 1).value()), pool_(threads) {
  auto prepared = PrepareRun(job_, &store_, pool_, *single_);
  if (!prepared.ok()) Die(prepared.status().ToString());
  prepared_ = std::move(*prepared);
  if (!rows_.Load(job_, 0, prepared_->backend).ok()) Die("rows cannot be loaded");
}

void ProductsAlone::Run() {
  std::vector<SideLeaf> unused;
  const uint64_t total = job_.plan->contexts[0].observed.size();
  const uint64_t step = job_.plan->row_tile == 0 ? total : job_.plan->row_tile;
  for (size_t context = 0; context < job_.plan->contexts.size(); ++context) {
    for (uint64_t row = 0; row < total; row += step) {
      tile_.Reset(job_, 0, row, std::min(step, total - row));
      const absl::Status filled = FillTile(rows_, prepared_->heads, pool_, false, &tile_, &unused);
      if (!filled.ok()) Die(filled.ToString());
    }
  }
}

}  // namespace assay::bench
