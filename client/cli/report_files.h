// Reports as people name them: files and folders on this machine, or a coordinator's.

#ifndef ASSAY_CLIENT_CLI_REPORT_FILES_H_
#define ASSAY_CLIENT_CLI_REPORT_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "storage/report/positions.h"
#include "storage/report/summary.h"
#include "storage/seal/pack.h"

namespace assay {

// One candidate's result. A candidate of an --out folder that failed has only label and reason.
struct NamedResult {
  std::shared_ptr<const UnpackedResult> unpacked;  // keeps `folder` of a packed one alive
  SummaryCandidate candidate;
  std::string bytes;   // of report.json
  std::string folder;  // on this machine; "" for one at a coordinator
  Json info;           // a coordinator's ReportInfo; null for a local one
};

// Results that a name stands for, with the connection that holds remote ones open.
struct NamedResults {
  std::vector<NamedResult> results;  // at least one
  std::unique_ptr<Session> session;  // null for local ones
};

// `given`: report.json, a candidate's folder, or the --out folder of a run (every candidate in its
// summary.json), or a file of assay pack, all on this machine. REPORT_MISSING when a folder holds
// none, and those of reading.
absl::StatusOr<std::vector<NamedResult>> ReadLocalResults(const std::string& given);

// As above where `given` exists on this machine; else reports/ID or ID at the coordinator of
// `options` (REPORT_UNKNOWN says how to list them). `command` is for other users of the data
// folder.
absl::StatusOr<NamedResults> FindResults(const std::string& given, const SessionOptions& options,
                                         const std::string& command);

// The arrays of positions/HEAD, checked against the digests in the report. HEAD_NOT_SCORED,
// FILE_MISSING, DIGEST_MISMATCH.
absl::StatusOr<PositionArrays> ReadArrays(const NamedResults& all, const NamedResult& result,
                                          const std::string& head);

// `asked`, or when it is "": own where the report has it, else shared. HEAD_NOT_SCORED.
absl::StatusOr<std::string> ChooseHead(const NamedResult& result, const std::string& asked);

// "reports/ID" of ID or reports/ID; likewise for other kinds.
std::string FullName(const std::string& kind, const std::string& text);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_REPORT_FILES_H_
