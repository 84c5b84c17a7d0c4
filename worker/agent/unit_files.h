// Between the wire's unit (blobs and manifests) and the rank's unit.json (local paths).

#ifndef ASSAY_WORKER_AGENT_UNIT_FILES_H_
#define ASSAY_WORKER_AGENT_UNIT_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "worker/agent/blob_cache.h"
#include "worker/agent/model_resolver.h"

namespace assay {

// A unit ready to run: every file it names is here and verified.
struct LocalUnit {
  Json unit;                         // as worker/rank/protocol.h says
  bool fresh_ranks = false;          // restart the ranks first
  std::vector<BlobCache::Pin> pins;  // keep the files while the unit runs
};

// A file that a unit made.
struct OutputFile {
  std::string path;
  std::string sha256;
  uint64_t size = 0;
};

struct UnitInputs {
  ModelResolver* models;
  BlobCache* cache;
  BlobStoreLink* store;
};

// Resolves a lease's unit_json (proto/assay/v1/worker.proto, Lease). Every {"sha256","bytes"} is
// fetched into the cache; paths in the document are replaced by local ones. UNIT_INVALID when the
// document is not as described; errors of ModelResolver and of fetching.
absl::StatusOr<LocalUnit> ResolveUnit(const std::string& unit_json, const UnitInputs& inputs,
                                      const std::function<bool()>& go_on);

// Turns the rank's result into the wire's: local file names are taken out, and every file named is
// listed in `files`. Sizes and names are checked against what lies in `out_dir`. RESULT_INVALID.
absl::StatusOr<Json> ExportResult(const std::string& kind, const Json& result,
                                  const std::string& out_dir, std::vector<OutputFile>* files);

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_UNIT_FILES_H_
