// The published aggregation of shard reports, qwen38-kld-ladder-cumulative/3, and the comparison of
// two or more of them, qwen38-kld-ladder-paired/2 (specs: qwen-suites 4.2, 4.3).
//
// Everything is recomputed from rows. The documents' fixed sentences are no part of this program: a
// caller passes those of a published receipt.

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_CUMULATIVE_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_CUMULATIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"

namespace assay {

struct PublishedInput {
  std::string path;    // as the receipt names it
  std::string sha256;  // of the file
  Json document;
};

struct AggregateOptions {
  const Suite* parent = nullptr;  // the suite that the shards are views of; null: one suite digest
  std::string parent_path;
  int64_t shard_size = 512;  // contexts of a whole shard; 0 = shards are not looked at
  std::vector<int64_t>
      shards;  // exactly these must be covered; empty = 0 to the last without a gap
  uint32_t samples = 10000;
  uint64_t seed = 1;
  double tolerance = 1e-6;  // of a report's headline against its rows, relative
  std::string candidate;    // "" = base name of the candidate's model path
  std::string label;        // "" = null
  std::string tool;         // goes to "tool"
  int64_t generated_unix = 0;
};

// Fixed sentences of a receipt, taken from a published one.
struct AggregateProse {
  std::string window_policy, bootstrap_unit, bootstrap_over, tail_source, tail_method, note;
  Json not_aggregable;
};
// REPORT_INVALID names the missing member.
absl::StatusOr<AggregateProse> AggregateProseOf(const Json& receipt, std::string_view where);

// REPORT_INVALID for a report that RecomputePublishedReport refuses or that has no histogram;
// NOT_COMPARABLE, naming the report, when head, filter, vocabulary, comparator, model identity or
// window differ from the first report's; COVERAGE_INVALID when a context is missing from its shard,
// appears twice, is not in the parent, or a report's suite digest is not that of its contexts.
absl::StatusOr<Json> AggregatePublishedReports(const std::vector<PublishedInput>& reports,
                                               const AggregateOptions& options,
                                               const AggregateProse& prose);

struct LadderPairingOptions {
  std::string manifest;                    // what suite.manifest says; "" = the parent's path
  std::string scope, statistic, operands;  // sentences
  std::string generated_utc;               // "2026-01-02T03:04:05Z"
  uint32_t samples = 10000;
  uint64_t seed = 1;
};

// `inputs`: label and receipt, `comparisons`: pairs of labels. NOT_COMPARABLE names the comparison.
absl::StatusOr<Json> PairCumulativeReceipts(
    const std::vector<std::pair<std::string, PublishedInput>>& inputs,
    const std::vector<std::pair<std::string, std::string>>& comparisons,
    const LadderPairingOptions& options);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_CUMULATIVE_H_
