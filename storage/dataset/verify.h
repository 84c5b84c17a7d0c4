// Verification of a fidelity dataset folder (specs: fidelity-dataset 2): every seal, digest and
// rule, in the published order.
//
// Stricter than the published validator where that is unsafe: duplicate JSON keys are refused, and
// a path that leaves the folder or passes a symbolic link is never opened.

#ifndef ASSAY_STORAGE_DATASET_VERIFY_H_
#define ASSAY_STORAGE_DATASET_VERIFY_H_

#include <string>
#include <vector>

#include "storage/base/json.h"
#include "storage/dataset/finding.h"

namespace assay {

struct DatasetOptions {
  bool manifest_only = false;
  bool allow_partial = false;  // a shard or a subset is no error
  bool verify_tensors = true;  // read every tensor and compare its digests
};

// The documents of one dataset.
struct DatasetDocuments {
  std::string root;
  Json manifest, capture, panel, head,
      runtime;  // null where they can't be read; head: where the manifest names none
};

// One gate: its name in the published list ("seal.manifest", "panel.tokens(4)") and how it went.
struct DatasetGate {
  std::string name;
  bool passed = false;
};

struct DatasetVerdict {
  Findings findings;
  std::vector<DatasetGate> gates;  // in the order in which they ran
  DatasetDocuments documents;
  bool ok() const { return findings.errors.empty(); }
};

// Never fails: what can't be read is a finding.
DatasetVerdict VerifyDataset(const std::string& root, const DatasetOptions& options);

// The parts of VerifyDataset, each adding to `findings`. Return values count what was looked at.
void CheckRecords(const DatasetDocuments& documents, Findings* findings);         // 11, 12
void CheckPanelAggregate(const DatasetDocuments& documents, Findings* findings);  // 13
int64_t CheckPanelTokens(const DatasetDocuments& documents, const DatasetOptions& options,
                         Findings* findings);                              // 14, 15
void CheckBinding(const DatasetDocuments& documents, Findings* findings);  // 16
void CheckCoverage(const DatasetDocuments& documents, const DatasetOptions& options,
                   Findings* findings);                                         // 17
void CheckHead(const DatasetDocuments& documents, Findings* findings);          // 18 to 24
void CheckDeterminism(const DatasetDocuments& documents, Findings* findings);   // 25
void CheckRole(const DatasetDocuments& documents, Findings* findings);          // 26 to 28
void CheckScope(const DatasetDocuments& documents, Findings* findings);         // 29
void CheckLaneAndRemap(const DatasetDocuments& documents, Findings* findings);  // 30, 31
int64_t CheckTensors(const DatasetDocuments& documents, Findings* findings);    // 32

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_VERIFY_H_
