// The two things every row compares: a whole replay, and the matrix products alone.

#ifndef ASSAY_TESTS_BENCH_REPLAY_RUNS_H_
#define ASSAY_TESTS_BENCH_REPLAY_RUNS_H_

#include <memory>
#include <optional>

#include "tests/bench/bench_util.h"
#include "tests/bench/replay_data.h"
#include "worker/replay/logits.h"
#include "worker/replay/prepare.h"
#include "worker/replay/threads.h"

namespace assay::bench {

// A replay through the engine, as a rank runs it. The head is packed by the first run.
class WholeReplay {
 public:
  WholeReplay(const ReplayPlan& plan, int threads, Collective& collective);
  void Run();

 private:
  const ReplayPlan& plan_;
  Collective& collective_;
  std::unique_ptr<ReplayEngine> engine_;
};

// The same products through the same oneDNN kernels, with the same tiles and threads, of the first
// context as often as there are contexts: nothing is done with the logits.
class ProductsAlone {
 public:
  ProductsAlone(const ReplayPlan& plan, int threads);
  void Run();

 private:
  std::unique_ptr<Collective> single_;
  Job job_;
  ThreadPool pool_;
  HeadStore store_;
  std::optional<Prepared> prepared_;
  OperandRows rows_;
  Tile tile_;
};

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_REPLAY_RUNS_H_
