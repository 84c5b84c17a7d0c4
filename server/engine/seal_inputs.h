// From committed rows and blobs to what the report library wants.

#ifndef ASSAY_SERVER_ENGINE_SEAL_INPUTS_H_
#define ASSAY_SERVER_ENGINE_SEAL_INPUTS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/state.h"
#include "storage/blob/blob_store.h"
#include "storage/format/suite.h"
#include "storage/report/report.h"
#include "storage/seal/receipt.h"

namespace assay {

// An operand's rows.
struct OperandInputs {
  OperandRow source;
  CaptureRow capture;
  HeadRow head;
  std::optional<ModelRow> model;
  FileMap first, repeat;
};

// A consistent copy of all rows that one candidate's documents depend on.
struct SealRows {
  RunRow run;
  size_t candidate = 0;
  SuiteRow suite;
  OperandInputs reference, operand;
  std::vector<UnitRow> replay, noise;  // DONE units of the run
  std::vector<UnitRow> others;         // units of both operands' models and captures
};

SealRows CopySealRows(const State& state, const std::string& run, size_t candidate);

// SEAL_INPUTS when rows and blobs do not fit together; the errors of the report library.
absl::StatusOr<ReportInputs> MakeReportInputs(const SealRows& rows, const Suite& suite,
                                              const BlobStore& blobs);

// Adds the published manifests that imported captures came with: "reference.capture-manifest" and
// "candidate.capture-manifest". A report does not name them, since two captures of the same files
// may have manifests that differ in nothing but the time they took. SEAL_INPUTS as above.
absl::Status AddPublishedInputs(const SealRows& rows, std::vector<InputDigest>* inputs);

// Canonical execution.json: who ran what, where, when, how often. Only stored values, so it is the
// same when made again.
absl::StatusOr<std::string> MakeExecution(const SealRows& rows, const std::string& report_sha256,
                                          const std::string& build_id);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_SEAL_INPUTS_H_
