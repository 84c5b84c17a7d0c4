#include "client/cli/dry_run_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "storage/report/bootstrap.h"

namespace assay {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCaptureOverhead = 256 * kMiB, kReplayOverhead = 96 * kMiB;
constexpr uint64_t kPositionBytes = 9 * 8 + 5 * 4;
constexpr double kNormal95 = 1.96;

struct Pairs {
  uint64_t heads = 0;        // that a rank holds
  uint64_t products = 0;     // (operand, head) pairs
  uint64_t comparisons = 0;  // candidates times head modes
};

Pairs PairsOf(const RunShape& shape) {
  Pairs pairs{1, 1, 0};
  for (size_t i = 1; i < shape.operands.size(); ++i) {
    const bool differs = !shape.operands[i].same_head;
    const bool own = shape.own && differs, shared = shape.shared || !own;
    pairs.heads += own ? 1 : 0;
    pairs.products += (own ? 1 : 0) + (shared ? 1 : 0);
    pairs.comparisons += (own ? 1 : 0) + (shared ? 1 : 0);
  }
  return pairs;
}

void AddAttempt(const Json& attempt, double* work, double* milliseconds) {
  if (!attempt.is_object() || !attempt.contains("counters")) return;
  if (attempt.value("outcome", "") != "done") return;
  double sum = 0;
  for (const Json& rank : attempt.at("counters")) sum += rank.value("multiply_adds", 0.0);
  const double took = attempt.value("compute_ms", 0.0);
  if (sum <= 0 || took <= 0) return;
  *work += sum;
  *milliseconds += took;
}

}  // namespace

RunCost CostOf(const RunShape& shape) {
  RunCost cost;
  const Pairs pairs = PairsOf(shape);
  const auto tokens =
      static_cast<double>((shape.contexts + shape.sentinels) * shape.context_length);
  uint64_t vocab = 0, hidden = 0;
  for (const OperandCost& operand : shape.operands) {
    vocab = std::max(vocab, operand.vocab);
    hidden = std::max(hidden, operand.hidden);
    cost.capture_bytes +=
        (shape.contexts + shape.sentinels) * shape.context_length * operand.hidden * 2 * 2;
    if (operand.capture) continue;
    const double attention = 2.0 * static_cast<double>(shape.context_length) *
                             static_cast<double>(operand.layers * operand.attention_width);
    cost.capture_work += tokens * (static_cast<double>(operand.body_weights) + attention);
    cost.read_bytes += 2 * operand.file_bytes;
    const uint64_t weights =
        4 * (operand.body_weights / shape.ranks + operand.embedding_weights) + kCaptureOverhead;
    cost.capture_memory = std::max(cost.capture_memory, weights);
  }
  const uint64_t positions = shape.contexts * shape.scored_per_context;
  cost.replay_work = static_cast<double>(positions) * static_cast<double>(vocab) *
                     static_cast<double>(hidden) * static_cast<double>(pairs.products);
  cost.result_bytes = positions * kPositionBytes * pairs.comparisons * 2;
  cost.replay_memory = 2 * pairs.heads * vocab * hidden / shape.ranks +
                       4 * pairs.products * shape.row_tile * vocab / shape.ranks +
                       2 * 2 * shape.operands.size() * shape.context_length * hidden +
                       kReplayOverhead;
  return cost;
}

WorkRates RatesOf(const std::vector<Json>& executions) {
  std::set<std::string> seen;
  double work[2] = {0, 0}, milliseconds[2] = {0, 0};
  WorkRates rates;
  for (const Json& execution : executions) {
    if (!execution.is_object() || !execution.contains("units")) continue;
    for (const Json& unit : execution.at("units")) {
      if (!unit.is_object() || !unit.contains("attempts") || !unit.contains("unit")) continue;
      if (!seen.insert(unit.at("unit").dump()).second) continue;
      const std::string kind = unit.value("kind", "");
      const bool replay = kind == "replay";
      if (!replay && kind != "capture" && kind != "repeat") continue;
      for (const Json& attempt : unit.at("attempts")) {
        AddAttempt(attempt, &work[replay], &milliseconds[replay]);
        const Json host = attempt.is_object() ? attempt.value("host", Json()) : Json();
        if (host.is_object() && rates.cpu.empty()) rates.cpu = host.value("cpu", "");
      }
    }
  }
  if (milliseconds[0] > 0) rates.capture = work[0] / milliseconds[0] * 1000;
  if (milliseconds[1] > 0) rates.replay = work[1] / milliseconds[1] * 1000;
  return rates;
}

std::optional<double> SecondsOf(const RunCost& cost, const WorkRates& rates, uint64_t workers) {
  if (cost.capture_work <= 0 && cost.replay_work <= 0) return std::nullopt;  // shapes unknown
  double seconds = 0;
  for (const auto& [work, rate] :
       {std::pair(cost.capture_work, rates.capture), {cost.replay_work, rates.replay}}) {
    if (work <= 0) continue;
    if (rate <= 0) return std::nullopt;
    seconds += work / rate;
  }
  return seconds / static_cast<double>(std::max<uint64_t>(workers, 1));
}

std::optional<double> SpreadOf(const Json& head_entry) {
  const Json& bootstrap = head_entry.at("statistics").at("kl_ref_cand").at("context_bootstrap");
  if (!bootstrap.at("refused").is_null()) return std::nullopt;
  const double mean = bootstrap.at("mean").get<double>();
  if (mean <= 0) return std::nullopt;
  const double half =
      (bootstrap.at("ci95_high").get<double>() - bootstrap.at("ci95_low").get<double>()) / 2;
  return half / mean * std::sqrt(bootstrap.at("clusters").get<double>()) / kNormal95;
}

std::optional<double> ResolvableShare(double spread, uint64_t documents) {
  if (documents < kBootstrapClustersMin) return std::nullopt;
  return kNormal95 * spread / std::sqrt(static_cast<double>(documents));
}

}  // namespace assay
