// One published replay report as an aggregate of shards needs it: its rows, its histogram and what
// it states once, without the document.

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_SHARD_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_SHARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/report/published_rows.h"

namespace assay {

struct PublishedShard {
  std::string path, sha256;  // as the receipt names the report
  std::string schema;
  std::vector<PublishedRow> rows;  // in the report's order; their names are the report's
  int64_t contexts = 0, positions = 0;
  int64_t index_min = 0, index_max = 0;  // of its contexts
  // The report without rows, strata and worst contexts; of the histogram binning and edges only.
  Json stated;
  bool window_declared = false;  // it has a scored_position_window
  int64_t score_from = 0;
  Json positions_per_context;  // as declared, or null
  bool has_tail = false;
  std::vector<int64_t> counts;              // of the histogram
  double max_kld = 0;                       // nats
  Json min_kld;                             // null when not stated
  double token_mean_gap = 0, top1_gap = 0;  // of the headline against the rows, relative
};

// Checks what an aggregate relies on (qwen-suites 7.2): schema /1 to /3 and its window agree, rows
// are sound, counts and headline follow from the rows within `tolerance` (relative), the histogram
// has ascending edges, adds up to the scored positions and has the report's maximum. What an
// aggregate does not use (the shard's own interval, JSD by context) is not looked at:
// RecomputePublishedReport does. Every fault found is appended to `problems` ("path: what"); the
// shard is then not to be used.
PublishedShard ReadPublishedShard(const std::string& path, const std::string& sha256,
                                  const Json& report, double tolerance,
                                  std::vector<std::string>* problems);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_SHARD_H_
