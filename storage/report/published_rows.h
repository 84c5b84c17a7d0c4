// Per-context rows of the published reports and what follows from rows alone (specs: qwen-suites
// 3.3 to 3.6).
//
// All sums and intervals are CPython's, so a value recomputed here is the published double. Nothing
// here knows how rows were made.

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_ROWS_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/report/bootstrap.h"

namespace assay {

// One context: KL in nats, JSD in bits, top1 = hits / positions. Names belong to the document that
// the row was read from, or to whom its reader says; it must outlive the row.
struct PublishedRow {
  std::string_view stratum, source_cluster;
  int32_t index = 0, positions = 0;
  uint32_t report = 0;  // for who welds several: which one it is from
  double mean_kld = 0, median_kld = 0;
  double max_kld = 0, mean_jsd_bits = 0;  // only in per_context
  double top1_agreement = 0;
};

// Rows of a report (per_context_all joined with per_context) or of a cumulative receipt
// (per_context_all alone: no max_kld, mean_jsd_bits). A report of the first generation has
// per_context alone: every context has scored_positions / contexts positions there. FIELD_* and
// REPORT_INVALID name `where` and the row: a member missing or of another type, an index twice, or
// the two lists disagreeing. Names of rows belong to `document`.
absl::StatusOr<std::vector<PublishedRow>> ReadPublishedRows(const Json& document,
                                                            std::string_view where);

int64_t PublishedPositions(const std::vector<PublishedRow>& rows);
std::vector<double> PublishedMeans(const std::vector<PublishedRow>& rows);
// Exactly rounded sum of value x positions (one double product each), over all positions.
double WeightedByPositions(const std::vector<PublishedRow>& rows, double PublishedRow::*value);

// {"mean","ci95_low","ci95_high","clusters","samples"} of values in row order; published intervals
// know no least number of clusters.
Json PublishedBootstrapJson(const std::vector<PublishedRow>& rows,
                            const std::vector<double>& values, uint32_t samples, uint64_t seed,
                            BootstrapSum sum);

// {"index","stratum","source_cluster","mean_kld","median_kld","max_kld","mean_jsd_bits",
// "top1_agreement"} and {"index","source_cluster","stratum","positions_scored","mean_kld",
// "median_kld","top1_agreement"}.
Json PublishedContextJson(const PublishedRow& row);
Json PublishedContextAllJson(const PublishedRow& row);
// PythonCanonJson(PublishedContextAllJson(row)), and PythonPrettyJson of it as an item of a member
// of the document; without the tree in between.
void AppendContextAllCanon(const PublishedRow& row, std::string* out);
void AppendContextAllPretty(const PublishedRow& row, std::string* out);

// Of an aggregate: {stratum: {"contexts","scored_positions","macro_mean_kld","token_mean_kld"}}, by
// name.
Json PublishedStrataJson(const std::vector<PublishedRow>& rows);
// Of an aggregate: the rows of WorstPublished as [{"index","stratum","source_cluster","mean_kld",
// "top1_agreement"}].
Json PublishedWorstJson(const std::vector<PublishedRow>& rows, size_t count);

// The rows with the largest mean_kld, largest first, equal ones in row order; at most `count`.
std::vector<PublishedRow> WorstPublished(const std::vector<PublishedRow>& rows, size_t count);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_ROWS_H_
