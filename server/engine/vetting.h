// Checks of a worker's result that need the blob store: done before the core sees it.

#ifndef ASSAY_SERVER_ENGINE_VETTING_H_
#define ASSAY_SERVER_ENGINE_VETTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/core/state.h"
#include "storage/blob/blob_store.h"
#include "storage/db/rows.h"

namespace assay {

// What a unit's result must hold.
struct UnitExpectation {
  UnitRow unit;
  std::vector<std::string> comparisons;  // of a replay
  uint64_t rows = 0;                     // positions of a context in a replay
};
UnitExpectation ExpectationOf(const State& state, const UnitRow& unit);

// Every blob that the result names is in the store with the size said; hidden files have the tensor
// and shape said, a head is the one whose digest is said, and a replay's file has every array that
// sealing needs. RESULT_BLOB_MISSING, RESULT_INVALID, SHAPE_MISMATCH, POSITIONS_INVALID, HEAD_*,
// SAFETENSORS_*.
absl::Status VetResult(const BlobStore& blobs, const UnitExpectation& expected,
                       const std::string& result_json);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_VETTING_H_
