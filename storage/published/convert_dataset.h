// A fidelity dataset of hidden states as a suite and a capture. Internal to convert.

#ifndef ASSAY_STORAGE_PUBLISHED_CONVERT_DATASET_H_
#define ASSAY_STORAGE_PUBLISHED_CONVERT_DATASET_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace assay {

// Files that a conversion adds to those of the dataset: suite/suite-manifest.json, suite/tokens/...
// and capture/capture-manifest.json.
struct DatasetAsCapture {
  std::map<std::string, std::string> files;  // path -> bytes
};

// `dir` has passed every gate of a complete dataset. CONVERSION_REFUSED for what a capture has no
// place for: logits, masks that leave positions out, contexts of several lengths, scoring windows,
// F16 or F64 states.
absl::StatusOr<DatasetAsCapture> CaptureOfDataset(const std::string& dir);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_CONVERT_DATASET_H_
