// Checks of a worker's result that need the blob store: done before the core sees it.

#ifndef ASSAY_SERVER_ENGINE_VETTING_H_
#define ASSAY_SERVER_ENGINE_VETTING_H_

#include <string>

#include "absl/status/status.h"
#include "storage/blob/blob_store.h"
#include "storage/db/rows.h"

namespace assay {

// Every blob that the result names is in the store with the size said, and hidden files have the
// tensor and shape said. RESULT_BLOB_MISSING, RESULT_INVALID, SHAPE_MISMATCH, SAFETENSORS_*.
absl::Status VetResult(const BlobStore& blobs, const UnitRow& unit, const std::string& result_json);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_VETTING_H_
