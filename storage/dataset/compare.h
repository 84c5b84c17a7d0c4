// Comparison of two fidelity datasets: gates, classification and the published estimator (specs:
// fidelity-dataset 3).

#ifndef ASSAY_STORAGE_DATASET_COMPARE_H_
#define ASSAY_STORAGE_DATASET_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/json.h"
#include "storage/dataset/verify.h"

namespace assay {

struct DatasetCompareOptions {
  std::optional<int64_t> vocab_chunk;  // columns of logits at a time; changes no result
  int64_t position_block = 128;        // rows at a time; changes no result
  int threads = 1;                     // changes no result
  bool self_compare = false;           // refuse anything but a reproduction
  bool force_compute =
      false;  // compute a reproduction too, and require that both sides agree bit for bit
  bool allow_cross_lane = false;
  bool allow_partial = false;
  bool disclose_head_substitution =
      false;                        // other heads: both sides through the reference's, disclosed
  bool own_heads = false;           // each side through its own head
  std::optional<std::string> head;  // a head file to use where a payload was not shipped
};

struct DatasetRefusal {
  std::string gate;  // "seal", "panel", "head", ...
  std::string code;  // "panel_mismatch", ...: specs fidelity-dataset 6
  std::string message;
};

// What the gates decided. `refusal` set: nothing else holds.
struct DatasetRelation {
  std::optional<DatasetRefusal> refusal;
  std::string kind = "measurement";  // or reproduction_confirmation, run_to_run_floor
  bool strict = true;                // else advisory
  bool usable_as_floor = true;
  bool same_stack = true;
  bool native_head = false;  // else one shared reference head
  bool covers_full_panel = true;
  std::vector<std::string> disclosures;  // codes, in the order in which they arose
  std::vector<int64_t> indices;          // of the shared records, ascending
};

// Gates and classification of two verified datasets.
DatasetRelation RelateDatasets(const DatasetVerdict& reference, const DatasetVerdict& candidate,
                               const DatasetCompareOptions& options);

// One shared record's values.
struct DatasetWindow {
  int64_t index = 0;
  std::string window_id, domain, stratum;
  std::vector<double>
      kl;  // KL(reference || candidate) of each row, nats, float64 softmax, unclamped
  int64_t top1_matches = 0;
};

// The estimator over the shared records: float32 products, float64 from there on. A refusal has
// gate "compute".
struct DatasetEstimate {
  std::optional<DatasetRefusal> refusal;
  std::vector<DatasetWindow> windows;
};
DatasetEstimate EstimateDatasets(const DatasetDocuments& reference,
                                 const DatasetDocuments& candidate, const DatasetRelation& relation,
                                 const DatasetCompareOptions& options);

// The whole comparison.
struct DatasetComparison {
  DatasetRelation relation;  // `refusal` also for what came after the gates
  std::vector<DatasetWindow> windows;
  Json summary;                           // "assay-dataset-comparison/1"; null when refused
  bool computed = false;                  // false: equal digests prove that every value is 0
  DatasetDocuments reference, candidate;  // for ComparisonReceipt
};
DatasetComparison CompareDatasets(const std::string& reference, const std::string& candidate,
                                  const DatasetCompareOptions& options);

// The values of all windows as a NumPy file: float64, little-endian, one dimension.
std::string TokenwiseNpy(const std::vector<DatasetWindow>& windows);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_COMPARE_H_
