// What a scoring run costs, from its shape alone: arithmetic, bytes, memory, time, and how small a
// difference its suite can resolve. All are estimates; the formulas stand here.

#ifndef ASSAY_CLIENT_CLI_DRY_RUN_COSTS_H_
#define ASSAY_CLIENT_CLI_DRY_RUN_COSTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay {

// One model or capture. The first of a run is the reference.
struct OperandCost {
  bool capture = false;    // hidden states are there already
  bool same_head = false;  // as the reference's: a transform leaves the head alone
  uint64_t body_weights = 0, embedding_weights = 0;
  uint64_t layers = 0, attention_width = 0;  // width: heads x dimension of a head
  uint64_t vocab = 0, hidden = 0;
  uint64_t file_bytes = 0;
};

struct RunShape {
  std::vector<OperandCost> operands;
  uint64_t contexts = 0, sentinels = 0;  // scored, and those of them that are captured twice
  uint64_t context_length = 0;           // tokens
  uint64_t scored_per_context = 0;       // positions
  uint64_t documents = 0;                // source clusters
  bool own = true, shared = true;        // head modes; shared only where a head differs, with own
  uint64_t ranks = 1, workers = 1;
  uint64_t row_tile = 64;
};

struct RunCost {
  // Multiply-adds. A captured token takes body_weights + 2 x context_length x layers x
  // attention_width; a compared position takes vocab x hidden for each (operand, head) pair.
  double capture_work = 0, replay_work = 0;
  uint64_t read_bytes = 0;  // files of the models, once to digest and once to load
  // bf16 rows of every captured context, sentinels twice; in the store and in a worker's cache.
  uint64_t capture_bytes = 0;
  // 92 bytes for each position and comparison, in the store and in --out.
  uint64_t result_bytes = 0;
  // Per rank. Capture: the largest model as float32, its body divided by the ranks, and 256 MiB.
  // Replay: bf16 head slices, a tile of float32 logits for each pair, two contexts of rows for each
  // operand, and 96 MiB.
  uint64_t capture_memory = 0, replay_memory = 0;

  uint64_t rank_memory() const { return std::max(capture_memory, replay_memory); }
};

RunCost CostOf(const RunShape& shape);

// Multiply-adds per second of one worker.
struct WorkRates {
  double capture = 0, replay = 0;  // 0: not known
  std::string cpu;                 // where they were measured, "" when stated
};

// From execution records (execution.json) of an earlier run: work done by the time it took, each
// unit once. Nothing where no record says so.
WorkRates RatesOf(const std::vector<Json>& executions);

// Seconds of a run; nothing where a rate that it needs, or all of the work, is not known.
std::optional<double> SecondsOf(const RunCost& cost, const WorkRates& rates, uint64_t workers);

// Standard deviation of documents' mean KLD divided by their mean, as assumed where no earlier
// result says: 0.2 to 0.4 was seen with round-to-nearest weights on the panels of this repository.
inline constexpr double kAssumedSpread = 0.4;

// Of an earlier report's head: half the width of its interval x sqrt(documents) / 1.96 / mean.
std::optional<double> SpreadOf(const Json& head_entry);

// Half the width of the expected 95 % interval of a mean KLD, as a share of it: 1.96 x spread /
// sqrt(documents). Below 8 documents there is no interval: nothing.
std::optional<double> ResolvableShare(double spread, uint64_t documents);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_DRY_RUN_COSTS_H_
