// Plans from metric fixtures (tests/data/metric) and from made-up problems, for the tests of this
// folder.

#ifndef ASSAY_WORKER_REPLAY_REPLAY_TEST_UTIL_H_
#define ASSAY_WORKER_REPLAY_REPLAY_TEST_UTIL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/json.h"
#include "storage/format/safetensors.h"
#include "worker/replay/replay.h"

namespace assay {

// The folder of the fixtures, "" when there is none.
std::string MetricFolder();

// "file.safetensors#name" below the metric folder; aborts when it is missing. Files stay open.
TensorView MetricTensor(const std::string& reference);

// The case list of index.json.
const Json& MetricCases();

// A plan for one case: operands "ref" and "cand", one comparison "c". Points into open fixture
// files.
ReplayPlan PlanOfCase(const Json& test_case, ReplayPolicy policy);

// A made-up problem that owns its data: bf16 hidden states and heads from a fixed generator.
struct Problem {
  std::vector<std::vector<uint16_t>> heads;                  // [vocab * hidden]
  std::vector<std::vector<std::vector<uint16_t>>> operands;  // [operand][context][rows * hidden]
  ReplayPlan plan;
};

struct ProblemShape {
  uint64_t vocab = 0, hidden = 0;
  std::vector<uint64_t> rows;  // per context
  int candidates = 1;
  bool own_head = false;  // the last candidate also through a head of its own
};

std::unique_ptr<Problem> MakeProblem(const ProblemShape& shape, uint64_t seed);

// Runs a plan on `ranks` ranks (threads of this process) of `threads` threads; every rank must give
// the same result, which is returned. `counters`, if not null, receives one entry per rank.
absl::StatusOr<ReplayResult> RunOnRanks(const ReplayPlan& plan, int ranks, int threads,
                                        std::vector<ReplayCounters>* counters = nullptr);

// All output bytes of a result, for comparison bit by bit.
std::string BytesOf(const ReplayResult& result);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_REPLAY_TEST_UTIL_H_
