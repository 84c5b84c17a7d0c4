// Plans from metric fixtures (tests/data/metric) and from made-up problems, for the tests of this
// folder.

#ifndef ASSAY_WORKER_REPLAY_REPLAY_TEST_UTIL_H_
#define ASSAY_WORKER_REPLAY_REPLAY_TEST_UTIL_H_

#include <cstdint>
#include <cstring>
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

// An output that the fixtures name otherwise.
struct MetricField {
  const char* fixture;
  int output;  // index into ReplayRows::f64 or i32
};
inline constexpr MetricField kMetricFloats[] = {
    {"kl_fwd", 0},   {"kl_rev", 1},      {"jsd_bits", 2},     {"nll_ref", 3},
    {"nll_cand", 4}, {"entropy_ref", 5}, {"entropy_cand", 6}, {"delta_p", 7}};
inline constexpr MetricField kMetricInts[] = {
    {"argmax_ref", 0}, {"argmax_cand", 1}, {"ties_ref", 2}, {"ties_cand", 3}};

// The known answers of one case under a fixture's field name. T: double, or int64_t for integers.
template <typename T>
std::vector<T> ExpectedOf(const Json& test_case, const std::string& field) {
  const TensorView t = MetricTensor(test_case.at("expected").get<std::string>() + "#" + field);
  std::vector<T> out(t.elements());
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

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
