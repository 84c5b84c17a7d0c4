// The rows of assay_replay_bench. Each returns one JSON object; docs/benchmarks.md says what they
// mean.

#ifndef ASSAY_TESTS_BENCH_REPLAY_ROWS_H_
#define ASSAY_TESTS_BENCH_REPLAY_ROWS_H_

#include "tests/bench/bench_util.h"

namespace assay::bench {

// Whole replays of 1 and of --candidates candidates against their products.
Json ProductsRow(const Flags& flags);
// One thread against two: the replay's speed-up over the products'.
Json ThreadsRow(const Flags& flags);
// Two ranks with one thread each over Gloo against one rank with two threads.
Json RanksRow(const Flags& flags);
// Ten contexts against a thousand: time per context and peak memory.
Json ContextsRow(const Flags& flags);
// A context of --positions against one of 2,048: peak memory beyond the rows themselves.
Json LongContextRow(const Flags& flags);
// Peak memory of a rank against its stated bound.
Json MemoryRow(const Flags& flags);
// Both passes over logits in cache against the exp and log calls that they contain.
Json MetricRow(const Flags& flags);
// A replay of captures on disk through a model's head against its products.
Json CapturesRow(const Flags& flags);
// Replays of one candidate each, one after the other, against one replay of all --candidates.
Json ManyRow(const Flags& flags);
// A peer's replay function on the same data and threads.
Json PeerRow(const Flags& flags);

// Core nanoseconds of one exp and one logarithm of the metric, called by themselves on values in
// cache.
struct BareCost {
  double exp = 0, log = 0;
};
BareCost MeasureBareCalls(uint64_t repeats);

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_REPLAY_ROWS_H_
