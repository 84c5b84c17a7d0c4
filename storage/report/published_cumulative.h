// The published aggregation of shard reports, qwen38-kld-ladder-cumulative/2 and /3, and the
// comparison of two or more of them, qwen38-kld-ladder-paired/1 and /2 (specs: qwen-suites 4.2,
// 4.3).
//
// Everything is recomputed from rows. The published tools' sentences are no part of this program:
// receipts carry its own, or those of a published receipt that a caller passes.

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_CUMULATIVE_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_CUMULATIVE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"
#include "storage/report/published_shard.h"
#include "storage/report/published_tail.h"

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
  int generation = 3;          // of the receipt: 2 has no scored_position_window
  bool rows = true;            // per_context_all is part of the receipt
  bool allow_no_tail = false;  // reports of the first generation have no histogram: tail is null
};

// Fixed sentences of a receipt.
struct AggregateProse {
  std::string window_policy, bootstrap_unit, bootstrap_over, tail_source, tail_method, note;
  Json not_aggregable;
};
// This program's own. `tail`: whether the reports have histograms.
AggregateProse OwnAggregateProse(bool tail);
// Those of a published receipt, /2 or /3; the window's is "" where it has none. REPORT_INVALID,
// FIELD_* name the missing member.
absl::StatusOr<AggregateProse> AggregateProseOf(const Json& receipt, std::string_view where);
// Samples, seed, shards, labels and the like of a published receipt: what it takes, with its
// reports and its suite, to write it again. FIELD_*.
absl::StatusOr<AggregateOptions> AggregateOptionsOf(const Json& receipt, std::string_view where);

// Takes the next bytes of a document; an error ends the writing.
using BytesSink = std::function<absl::Status(std::string_view)>;

// Welds shard reports of one candidate, one at a time. Of a report only its sums are kept and, for
// each context, a PublishedRow (96 bytes at most) with the names that it has alone: memory is that
// of one report and of a small table, whatever the number of shards.
class PublishedAggregator {
 public:
  // `options.parent` outlives the aggregator.
  explicit PublishedAggregator(AggregateOptions options);

  void Add(const PublishedInput& report);  // faults are collected until Finish

  bool has_tail() const { return !shards_.empty() && shards_.front().has_tail; }

  // The receipt. Refused, with every fault that was found (the first 20 in full): REPORT_INVALID
  // for a report that ReadPublishedShard refuses, NOT_COMPARABLE when reports differ in what
  // ComparePublished looks at or mix generations, COVERAGE_INVALID when a context is missing from
  // its shard, appears twice or is not in the parent, or a report's suite digest is not that of its
  // contexts. The reason is that of the first fault.
  absl::StatusOr<Json> Finish(const AggregateProse& prose);
  // The same without its rows as a tree: its bytes (PythonPrettyJson) go to `sink` in pieces, after
  // all faults were looked for. Returned with an empty per_context_all.
  absl::StatusOr<Json> Write(const AggregateProse& prose, const BytesSink& sink);

 private:
  void Fault(const std::string& reason, const std::string& why);
  void Compare(const PublishedShard& shard);
  void AddTail(const PublishedShard& shard, const Json& binning);
  void Order();
  std::vector<bool> DropUnknown();
  void CheckLineage(const std::vector<bool>& known);
  absl::StatusOr<Json> WithoutRows(const AggregateProse& prose);
  void CheckShards();
  absl::Status Faults() const;
  int64_t ShardOf(int64_t index) const { return index / options_.shard_size; }
  const Json& first() const { return first_; }
  Json WindowJson(const AggregateProse& prose) const;
  Json SuiteJson() const;
  Json LadderJson() const;
  Json ShardsJson() const;
  double MeanJsd() const;
  std::string Candidate() const;
  Json HeadJson(const AggregateProse& prose) const;
  void AddStatistics(const AggregateProse& prose, Json* out) const;

  AggregateOptions options_;
  std::vector<std::pair<std::string, std::string>> faults_;  // reason, sentence
  std::vector<PublishedShard> shards_;
  Json first_;                      // what the first report states
  std::vector<PublishedRow> rows_;  // of all shards, in the parent's order
  SummedTail tail_;
  absl::node_hash_set<std::string> names_;       // of strata and documents, for rows_
  absl::flat_hash_map<int64_t, int64_t> order_;  // context -> place in the parent
  std::vector<int64_t> covered_;                 // shards, ascending
};

// Aggregates reports that are all in memory.
absl::StatusOr<Json> AggregatePublishedReports(const std::vector<PublishedInput>& reports,
                                               const AggregateOptions& options,
                                               const AggregateProse& prose);

struct LadderPairingOptions {
  int generation = 2;                      // 1: no "ties", and ties count among b's wins
  std::string manifest;                    // what suite.manifest says; "" = the parent's path
  std::string scope, statistic, operands;  // sentences
  std::string generated_utc;               // "2026-01-02T03:04:05Z"
  uint32_t samples = 10000;
  uint64_t seed = 1;
};
// This program's own sentences for `contexts` contexts.
LadderPairingOptions OwnLadderPairingOptions();

// `inputs`: label and receipt, `comparisons`: pairs of labels. NOT_COMPARABLE names the comparison
// and every reason.
absl::StatusOr<Json> PairCumulativeReceipts(
    const std::vector<std::pair<std::string, PublishedInput>>& inputs,
    const std::vector<std::pair<std::string, std::string>>& comparisons,
    const LadderPairingOptions& options);

// SHA-256 of the one-line canonical form (sorted keys, ASCII) of `document` without the members
// `excluded`, as such receipts state it in content_sha256.
std::string PublishedContentSha256(const Json& document, const std::vector<std::string>& excluded);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_CUMULATIVE_H_
