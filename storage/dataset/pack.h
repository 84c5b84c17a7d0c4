// Writes a fidelity dataset in the published layout from captures (specs: fidelity-dataset 1).
//
// What can be computed is computed: digests, counts, coverage, seals, checksums. What cannot, a
// description states (DatasetDescription); what it leaves out is null or "unknown", never guessed.

#ifndef ASSAY_STORAGE_DATASET_PACK_H_
#define ASSAY_STORAGE_DATASET_PACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"

namespace assay {

enum class DatasetForm { kHidden, kLogit };

struct DatasetPackRequest {
  DatasetForm form = DatasetForm::kHidden;
  // Members of the published documents that nothing here computes, all optional but dataset.id:
  // created_utc, run_name, readme, metadata (of tensor files), dataset, weights, scope, panel
  // ({..., "records": [...] by position}), capture ({..., "record": members of every record}),
  // head, runtime (the document without its seals), determinism, coverage, disclosures, interop,
  // seal, upstream_receipts.
  Json description = Json::object();
  Suite suite;                      // with its tokens: the panel
  std::vector<std::string> hidden;  // of each suite context its hidden file; "" = not captured
  std::string head_file, head_tensor;
  bool masks = true;  // write attention masks of ones
};

// Writes `out`, which must not exist, and verifies it with every gate; nothing is left when that
// fails. OUT_OCCUPIED, DESCRIPTION_INVALID, DATASET_REFUSED (naming the first finding), and the
// errors of reading captures and heads.
absl::Status PackDataset(const DatasetPackRequest& request, const std::string& out);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_PACK_H_
