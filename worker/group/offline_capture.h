// assay capture: a published capture directory made on this machine, without a server.

#ifndef ASSAY_WORKER_GROUP_OFFLINE_CAPTURE_H_
#define ASSAY_WORKER_GROUP_OFFLINE_CAPTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/model_spec.h"
#include "worker/group/offline.h"

namespace assay {

struct OfflineCaptureRequest {
  ModelSpec model;
  std::string suite_dir;
  std::string filter = "all";
  int64_t limit = 0;          // contexts at most, spread over strata (LimitContexts); 0 = all
  std::string out;            // the capture directory
  size_t unit_contexts = 16;  // contexts per unit; the manifest is brought up to date after each
  std::string digest_cache;   // file of DigestCache; "" = memory only
};

struct OfflineCaptureResult {
  Json manifest;               // capture-manifest.json as written
  std::string content_sha256;  // CaptureManifest::ContentSha256
  std::string model_identity;
  uint64_t captured = 0;  // contexts made now
  uint64_t kept = 0;      // contexts found, verified and kept
  int attempts = 0;       // unit attempts beyond the first, over all units
};

// Captures the selected contexts into `out`. The manifest there says complete = false until every
// context is present; a folder that already holds a part of the same capture (same model, suite,
// filter and kernels) is continued, each kept file verified by digest. The manifest's
// candidate_identity carries the member "assay_model": {"manifest", "identity", "facts"}.
// CAPTURE_OUT_OCCUPIED when `out` holds something else, OUT_BUSY, DIGEST_MISMATCH for a damaged
// file of an earlier run, CANCELLED, and the errors of suite, model and ranks.
absl::StatusOr<OfflineCaptureResult> OfflineCapture(const OfflineCaptureRequest& request,
                                                    const OfflineRanks& ranks,
                                                    const OfflineHooks& hooks);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_OFFLINE_CAPTURE_H_
