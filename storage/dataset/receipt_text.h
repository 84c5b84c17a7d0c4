// The sentences of comparison receipts: this program's own words.

#ifndef ASSAY_STORAGE_DATASET_RECEIPT_TEXT_H_
#define ASSAY_STORAGE_DATASET_RECEIPT_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "storage/base/json.h"
#include "storage/dataset/compare.h"

namespace assay {

// {gate: {"passed","detail","overridden_by"}} of the gates that a receipt lists; `overridden_by`
// names the option that let one pass. The manifests are the two datasets'.
Json ReceiptGates(const Json& reference, const Json& candidate, const DatasetRelation& relation,
                  const DatasetCompareOptions& options);

// [{"code","severity","affects_comparability","detail"}], at least one (specs 1.4 has the codes).
Json ReceiptDisclosures(const std::vector<std::string>& codes);

Json ReceiptTool();
std::string ReceiptSoftmaxNote();
std::string ReceiptZeroNote();
std::string ReceiptDeterminismNote();
std::string ReceiptKeyNote();
std::string ReceiptSubsetDetail(size_t records);
std::string ReceiptBiasDetail(const std::string& kind);
std::string ReceiptSubmissionRefusal(const std::string& kind);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_RECEIPT_TEXT_H_
