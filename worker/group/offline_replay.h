// assay replay: captures compared on this machine, without a server.

#ifndef ASSAY_WORKER_GROUP_OFFLINE_REPLAY_H_
#define ASSAY_WORKER_GROUP_OFFLINE_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/report/summary.h"
#include "worker/group/offline.h"

namespace assay {

// "[LABEL=]VALUE" as people write it. An empty label is filled in by the user of the pair.
struct LabelledInput {
  std::string label;
  std::string value;
};

// The value given for `label`, else the one given for all candidates.
std::optional<std::string> ValueFor(const std::vector<LabelledInput>& inputs,
                                    const std::string& label);

struct OfflineReplayRequest {
  std::string reference;                       // capture directory
  std::vector<LabelledInput> candidates;       // capture directories; label "" = folder name
  std::string head;                            // FILE[:TENSOR] or MODEL, of the reference
  std::vector<LabelledInput> candidate_heads;  // label "" = every candidate
  // Biases as HeadRequest::bias; the scale is of every head.
  std::string head_bias;
  std::vector<LabelledInput> candidate_head_biases;
  std::optional<double> logit_scale;
  std::string suite_dir;
  std::string filter;  // "" = the reference capture's own
  int64_t limit = 0;   // contexts at most, spread over strata (LimitContexts); 0 = all
  std::string out;
  std::string policy = "exact";
  std::string backend = "auto";  // of every unit: auto, cpu-bf16, cpu-f32 or cuda-bf16
  int64_t row_tile = 64;
  std::optional<double> softcap;
  std::optional<int64_t> valid_vocab;  // columns from 0 on that exist
  bool allow_infinite = false;
  std::optional<int64_t> vocab_chunk;  // of policy torch-bf16 (docs/metric.md)
  int64_t score_from = 0;     // positions dropped at the start of every context (qwen-suites 3.8)
  size_t unit_contexts = 16;  // bounds what a unit holds
};

struct OfflineReplayResult {
  Summary summary;
  std::vector<SummaryCandidate> candidates;  // in the order given
  std::vector<absl::Status> statuses;        // by candidate; OK = scored
  size_t failed = 0;
};

// Verifies every input by digest, replays, and writes what assay score writes, without receipts:
// OUT/summary.{json,csv,md} and OUT/LABEL/{report.json, execution.json, positions/...}.
//
// Heads: without a candidate head the one head serves both sides ("shared", body only). With one
// of its own, a candidate is scored as served ("own"), and with the reference head too when the two
// differ.
//
// A candidate that is refused (damaged, incomplete, of another suite, rows not finite) does not
// stop the others; when none is left the first error is returned. A refused suite, reference or
// head is an error. LABEL_INVALID, LABEL_DUPLICATE, LABEL_UNKNOWN, SUITE_MISMATCH, DIGEST_MISMATCH,
// CONTEXT_MISSING, SHAPE_MISMATCH, FILTER_EMPTY (no context or, with score_from, no position left),
// OUT_SEALED (the folder holds sealed results), OUT_BUSY,
// CANCELLED, and those of the parts.
absl::StatusOr<OfflineReplayResult> OfflineReplay(const OfflineReplayRequest& request,
                                                  const OfflineRanks& ranks,
                                                  const OfflineHooks& hooks);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_OFFLINE_REPLAY_H_
