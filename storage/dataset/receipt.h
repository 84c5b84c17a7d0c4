// The published receipt of a comparison, malaiwah.fidelity-comparison-receipt.v1 (specs:
// fidelity-dataset 3.6), written by this program.
//
// Everything that follows from the datasets and the values is as the published tool writes it, to
// the last digit of numpy's means and quantiles. Sentences (details of gates and disclosures,
// notes) are this program's own, and the estimator is named as what it is.
// docs/formats/fidelity-dataset.md lists both.

#ifndef ASSAY_STORAGE_DATASET_RECEIPT_H_
#define ASSAY_STORAGE_DATASET_RECEIPT_H_

#include <string>

#include "storage/base/json.h"
#include "storage/dataset/compare.h"
#include "storage/dataset/verify.h"

namespace assay {

struct ComparisonReceiptInfo {
  std::string reference_label = "reference", candidate_label = "candidate";
  std::string created_utc;  // "2026-01-02T03:04:05Z"
  bool computed = true;     // false: proven by equal digests
};

// `comparison` was not refused. Self-sealed (receipt_sha256); write DatasetPrettyJson of it.
Json ComparisonReceipt(const DatasetDocuments& reference, const DatasetDocuments& candidate,
                       const DatasetComparison& comparison, const DatasetCompareOptions& options,
                       const ComparisonReceiptInfo& info);

// The published key of measurements that may be ranked together: "cmp--" and 16 hex digits.
std::string ComparabilityKey(const Json& key_inputs);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_RECEIPT_H_
