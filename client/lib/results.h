// Fetches a run's sealed results into an output folder.

#ifndef ASSAY_CLIENT_LIB_RESULTS_H_
#define ASSAY_CLIENT_LIB_RESULTS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/client.h"
#include "storage/report/positions.h"
#include "storage/report/summary.h"

namespace assay {

// OK when `out` does not exist, or holds nothing but what a result with these labels consists of
// and results that were replaced (kept_labels.h), or temporary files of those, so that a result is
// never mixed with anything else; and when it can be written to. Asked before any work.
// OUT_NOT_EMPTY names the first foreign entry, OUT_INVALID when it is no folder and cannot become
// one, FILE_DENIED.
absl::Status CheckOutFolder(const std::string& out, const std::vector<std::string>& labels);

// report.json, execution.json, receipt.json and position arrays of one report under OUT/LABEL.
// Every byte is verified by digest. The candidate's row for the summary.
absl::StatusOr<SummaryCandidate> FetchReport(Client* client, const std::string& report,
                                             const std::string& out, const std::string& label);

// The position arrays of a report by head, each blob verified by its digest. `info` is what
// Client::GetReport gives, `where` names the report in errors.
absl::StatusOr<std::map<std::string, PositionArrays>> FetchArrays(Client* client, const Json& info,
                                                                  const std::string& where);

struct FetchedRun {
  std::vector<SummaryCandidate> candidates;  // in the order of the run; failed ones without report
  std::vector<absl::Status> statuses;        // of each
  Summary summary;
  size_t sealed = 0;
};

// Every candidate of a run that has ended, and summary.*, key.pub, VERIFY.md beside them.
// `progress` is told after each candidate.
absl::StatusOr<FetchedRun> FetchRun(Client* client, const Json& run, const std::string& out,
                                    const std::function<void(size_t done, size_t total)>& progress,
                                    const SummaryOptions& options = {});

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_RESULTS_H_
