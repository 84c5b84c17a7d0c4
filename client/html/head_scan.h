// One pass over the position arrays of a head, in memory that does not depend on their length.

#ifndef ASSAY_CLIENT_HTML_HEAD_SCAN_H_
#define ASSAY_CLIENT_HTML_HEAD_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

inline constexpr size_t kWorstPositions = 50;

struct WorstPosition {
  size_t context = 0;     // place in the report's list of contexts
  uint64_t position = 0;  // in that context, counted from 0, those left out by score_from included
  double kl = 0;          // nats, perhaps infinite
  double nll_ref = 0, nll_cand = 0;  // nats, of the token that follows
  int32_t top1_ref = 0, top1_cand = 0;
};

// Positions [first, last] of all contexts together.
struct CurveBin {
  uint64_t first = 0, last = 0;
  uint64_t positions = 0;      // > 0
  uint64_t infinite = 0;       // of them
  std::optional<double> mean;  // KLD, exactly rounded; none when one is infinite
  double max = 0;              // KLD, perhaps infinite
  uint64_t same_top1 = 0;
};

struct HeadScan {
  std::vector<WorstPosition> worst;  // largest KLD first, equal ones in suite order
  std::vector<CurveBin> curve;       // ascending; empty bins are left out
};

// Bin of a position: one for each of the first, then each about a sixth of its start wide.
// Ascending first positions of bins up to the one that holds `last`.
std::vector<uint64_t> CurveBinStarts(uint64_t last);

// Reads kl_ref_cand, nll_ref, nll_cand, top1_ref and top1_cand of FOLDER (.../positions/HEAD) for
// the rows that `contexts` (a head's list in report.json) states, and checks their digests against
// `arrays`. POSITIONS_INVALID for a wrong length, DIGEST_MISMATCH for other bytes than the report
// was made from.
absl::StatusOr<HeadScan> ScanHead(const std::string& folder, const Json& contexts,
                                  const Json& arrays, uint64_t score_from);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_HEAD_SCAN_H_
