// Known answers for datasets: a base folder with a small change, and the findings that it must
// give.

#ifndef ASSAY_STORAGE_DATASET_OVERLAY_H_
#define ASSAY_STORAGE_DATASET_OVERLAY_H_

#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// Verifies the dataset of one entry of verify.json in `folder` (laid out like
// tests/data/metric/fidelity-dataset) with the entry's options and compares errors, warnings and
// gates, in order. Changed copies are made in `work`. "" or the difference.
std::string CheckVerifyAnswer(const std::string& folder, const Json& overlays, const Json& entry,
                              const std::string& work);

// Compares the datasets of one entry of compare.json and holds outcome, class, disclosures and
// every number against the entry and its receipt; values at positions to 1e-14, as the folder's
// README states. "" or the difference.
std::string CheckCompareAnswer(const std::string& folder, const Json& entry);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_OVERLAY_H_
