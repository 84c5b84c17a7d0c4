// Assay's own report in the published form qwen38-fidelity-report/1 to /3 (specs: qwen-suites 3),
// so that it can be aggregated and paired with reports of the published tool.

#ifndef ASSAY_STORAGE_REPORT_PUBLISHED_EXPORT_H_
#define ASSAY_STORAGE_REPORT_PUBLISHED_EXPORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// What the published form names and a report of Assay's does not hold: files and folders.
struct PublishedExportInfo {
  int generation = 2;                            // of the schema
  std::string reference, candidate;              // captures, as the report is to call them
  std::string reference_model, candidate_model;  // model_path of the identities
  std::string head, head_sha256;                 // reference head: name and SHA-256 of the file
  std::string candidate_head, candidate_head_sha256;  // "" = the reference's
};

// `report` (assay-report/1) under head mode `head`. EXPORT_LOSSY when the form cannot say what was
// measured: a window in /1 or /2, none in /3, a run of part of a filter (--limit), infinite
// positions, a softcap or a cut vocabulary. EXPORT_INCOMPLETE when `info` lacks a name or digest.
// Numbers are the report's; sentences are this program's own; a comparator that is not the
// published one (policy torch-bf16) says so in members of its own, so that nothing is aggregated
// across.
absl::StatusOr<Json> ExportPublishedReport(const Json& report, std::string_view head,
                                           const PublishedExportInfo& info);

// The bytes of a published report, read and written again: EXPORT_LOSSY when they would not be the
// same or the report is of another generation.
absl::StatusOr<std::string> ReexportPublishedReport(std::string_view bytes, std::string_view where,
                                                    int generation);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_PUBLISHED_EXPORT_H_
