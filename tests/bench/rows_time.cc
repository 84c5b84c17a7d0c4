#include <cstdlib>
#include <string>
#include <thread>

#include "storage/base/files.h"
#include "tests/bench/replay_rows.h"
#include "tests/bench/replay_runs.h"

namespace assay::bench {
namespace {

Shape ShapeOf(const Flags& flags) {
  Shape shape;
  shape.vocab = Number(flags, "--vocab");
  shape.hidden = Number(flags, "--hidden");
  shape.rows = Number(flags, "--positions");
  shape.candidates = static_cast<int>(Number(flags, "--candidates"));
  shape.row_tile = Number(flags, "--row-tile");
  return shape;
}

// A replay of the first `candidates` candidates beside its products.
struct Compared {
  Compared(const Data& data, int candidates, int threads)
      : plan(Narrowed(data.plan, candidates)),
        single(CreateCollective({}).value()),
        whole(plan, threads, *single),
        products(plan, threads) {
    whole.Run();  // packs the head and touches all memory
    products.Run();
  }
  static ReplayPlan Narrowed(ReplayPlan plan, int candidates) {
    plan.comparisons.resize(candidates);
    plan.operands.resize(candidates + 1);
    return plan;
  }
  void Take() {
    TakeInTurn(
        &whole_time, [&] { whole.Run(); }, &products_time, [&] { products.Run(); });
  }

  const ReplayPlan plan;
  std::unique_ptr<Collective> single;
  WholeReplay whole;
  ProductsAlone products;
  Samples whole_time, products_time;
};

// Runs body(0), body(1), ... side by side.
void OnEach(size_t count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(body, static_cast<int>(i));
  body(0);
  for (std::thread& t : threads) t.join();
}

// The ranks of a group as threads of this process that talk through Gloo.
class GlooRanks {
 public:
  GlooRanks(const ReplayPlan& plan, int ranks) : folder_("/tmp/assay_bench_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) Die("cannot make a folder in /tmp");
    collectives_.resize(ranks);
    OnEach(ranks, [&](int r) {
      CollectiveOptions options;
      options.rank = r;
      options.size = ranks;
      options.rendezvous = folder_;
      options.backend = "gloo";
      options.timeout_ms = 600'000;
      auto gloo = CreateCollective(options);
      if (!gloo.ok()) Die(gloo.status().ToString());
      collectives_[r] = std::move(*gloo);
    });
    for (auto& gloo : collectives_) {
      replays_.push_back(std::make_unique<WholeReplay>(plan, 1, *gloo));
    }
  }
  ~GlooRanks() { RemoveTree(folder_).IgnoreError(); }

  void Run() {
    OnEach(replays_.size(), [&](int r) { replays_[r]->Run(); });
  }

 private:
  std::string folder_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::vector<std::unique_ptr<WholeReplay>> replays_;
};

// As many replays of one thread, each of its part of the vocabulary by itself, that never meet:
// what the ranks of a group would take if talking cost nothing and nobody waited for another.
class RanksApart {
 public:
  RanksApart(const ReplayPlan& plan, int ranks) : single_(CreateCollective({}).value()) {
    for (int r = 0; r < ranks; ++r) plans_.push_back(PartOf(plan, r, ranks));
    for (const ReplayPlan& part : plans_) {
      replays_.push_back(std::make_unique<WholeReplay>(part, 1, *single_));
    }
  }
  void Run() {
    OnEach(replays_.size(), [&](int r) { replays_[r]->Run(); });
  }

 private:
  static ReplayPlan PartOf(ReplayPlan plan, uint64_t rank, uint64_t ranks) {
    ReplayHead& head = plan.heads[0];
    const uint64_t begin = head.vocab * rank / ranks, end = head.vocab * (rank + 1) / ranks;
    head.bytes = head.bytes.subspan(begin * head.hidden * 2, (end - begin) * head.hidden * 2);
    head.vocab = end - begin;
    return plan;
  }

  const std::unique_ptr<Collective> single_;
  std::vector<ReplayPlan> plans_;
  std::vector<std::unique_ptr<WholeReplay>> replays_;
};

}  // namespace

Json ProductsRow(const Flags& flags) {
  const Shape shape = ShapeOf(flags);
  const Data data(shape);
  const int threads = static_cast<int>(Number(flags, "--threads"));
  const BareCost bare = MeasureBareCalls(100);
  Json out;
  for (const int candidates : {1, shape.candidates}) {
    Compared run(data, candidates, threads);
    for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) run.Take();
    const double columns = static_cast<double>(shape.rows * shape.vocab) * candidates;
    // One exp for each operand in the first pass, two and a logarithm for each candidate in the
    // second: with nothing else around the products.
    const double calls = (bare.exp * (3 * candidates + 1) / candidates + bare.log) * columns * 1e-9;
    const double floor = 1 + calls / MedianOf(run.products_time.processors());
    Json one = {
        {"candidates", candidates},
        {"ratio", Ratio(run.whole_time, run.products_time)},
        {"floor", floor},
        {"replay", run.whole_time.ToJson()},
        {"products", run.products_time.ToJson()},
        {"metric_core_ns_per_column",
         (MedianOf(run.whole_time.processors()) - MedianOf(run.products_time.processors())) * 1e9 /
             columns},
        {"products_gflops", 2e-9 * columns / candidates * (candidates + 1) *
                                static_cast<double>(shape.hidden) / run.products_time.median()}};
    out["by_candidates"].push_back(one);
    if (shape.candidates == 1) break;
  }
  return out;
}

Json ThreadsRow(const Flags& flags) {
  const Data data(ShapeOf(flags));
  Compared one(data, 1, 1), two(data, 1, 2);
  for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) {
    one.Take();
    two.Take();
  }
  // Of every round: what the second thread gives the replay, over what it gives the products.
  const auto rounds = [&](const auto& times) {
    std::vector<double> out;
    for (size_t r = 0; r < times(one.whole_time).size(); ++r) {
      out.push_back(times(one.whole_time)[r] / times(two.whole_time)[r] /
                    (times(one.products_time)[r] / times(two.products_time)[r]));
    }
    return MedianOf(std::move(out));
  };
  const double wall = rounds([](const Samples& s) { return s.walls(); });
  const double processor = rounds([](const Samples& s) { return s.processors(); });
  return {{"ratio", {{"wall", wall}, {"processor", processor}}},
          {"replay_speedup", Ratio(one.whole_time, two.whole_time)},
          {"products_speedup", Ratio(one.products_time, two.products_time)}};
}

Json RanksRow(const Flags& flags) {
  const Data data(ShapeOf(flags));
  auto single = CreateCollective({}).value();
  WholeReplay threads(data.plan, 2, *single);
  GlooRanks ranks(data.plan, 2);
  RanksApart apart(data.plan, 2);
  threads.Run();
  ranks.Run();
  apart.Run();
  Samples threads_time, ranks_time, apart_time;
  for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) {
    TakeInTurn(
        &threads_time, [&] { threads.Run(); }, &ranks_time, [&] { ranks.Run(); });
    apart_time.Take([&] { apart.Run(); });
  }
  return {{"ratio", Ratio(ranks_time, threads_time)},
          {"apart", Ratio(apart_time, threads_time)},
          {"two_ranks", ranks_time.ToJson()},
          {"two_apart", apart_time.ToJson()},
          {"two_threads", threads_time.ToJson()}};
}

namespace {

// Peak memory of one replay of `plan` in a process of its own.
uint64_t PeakOf(const ReplayPlan& plan, int threads) {
  const Json peak = InChild([&]() -> Json {
    auto single = CreateCollective({}).value();
    WholeReplay(plan, threads, *single).Run();
    return PeakMemory();
  });
  return peak.get<uint64_t>();
}

}  // namespace

Json ContextsRow(const Flags& flags) {
  Shape shape = ShapeOf(flags);
  constexpr uint64_t kFew = 10, kMany = 1'000;
  shape.contexts = kMany;
  const Data data(shape);
  ReplayPlan few_plan = data.plan;
  few_plan.contexts.resize(kFew);
  const int threads = static_cast<int>(Number(flags, "--threads"));
  // Before this process has threads: a child must not inherit half of them.
  const uint64_t few_peak = PeakOf(few_plan, threads), many_peak = PeakOf(data.plan, threads);
  const uint64_t outputs = kMany * shape.rows * (kReplayF64Count * 8 + kReplayI32Count * 4);
  auto single = CreateCollective({}).value();
  WholeReplay few(few_plan, threads, *single), many(data.plan, threads, *single);
  few.Run();
  many.Run();
  Samples few_time, many_time;
  for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) {
    for (int k = 0; k < 10; ++k) few_time.Take([&] { few.Run(); });
    many_time.Take([&] { many.Run(); });
  }
  Json ratio = Ratio(many_time, few_time);
  for (auto& [key, value] : ratio.items()) {
    value = value.get<double>() * static_cast<double>(kFew) / static_cast<double>(kMany);
  }
  return {
      {"ratio", ratio},
      {"peak_few_mib", few_peak >> 20},
      {"peak_many_mib", many_peak >> 20},
      {"outputs_mib", outputs >> 20},
      {"memory_ratio", static_cast<double>(many_peak - outputs) / static_cast<double>(few_peak)}};
}

}  // namespace assay::bench
