// Logits of captured hidden states, as the published estimator forms them.

#ifndef ASSAY_STORAGE_DATASET_LOGITS_H_
#define ASSAY_STORAGE_DATASET_LOGITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

// A matrix widened to float32.
struct LogitMatrix {
  uint64_t rows = 0, columns = 0;
  std::vector<float> values;  // row major
};

// The head in `path`: `tensor`, else lm_head.weight, else weight, widened to float32. Reasons are
// the codes of fidelity-dataset 6.
absl::StatusOr<LogitMatrix> ReadDatasetHead(const std::string& path, const std::string& tensor);

// hidden_states of `hidden_path` times `head`, [rows, vocabulary]: float32 products, summed in the
// order of the inner dimension.
absl::StatusOr<LogitMatrix> DatasetLogits(const std::string& hidden_path, const LogitMatrix& head);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_LOGITS_H_
