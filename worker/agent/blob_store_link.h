// The agent's view of the coordinator's blob store, as an interface for tests.

#ifndef ASSAY_WORKER_AGENT_BLOB_STORE_LINK_H_
#define ASSAY_WORKER_AGENT_BLOB_STORE_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// Thread-safe; calls block. `go_on` is asked between pieces; false ends the call with CANCELLED.
class BlobStoreLink {
 public:
  virtual ~BlobStoreLink() = default;
  virtual absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& sha256s) = 0;
  // The verified blob at `path`.
  virtual absl::Status Fetch(const std::string& sha256, const std::string& path,
                             const std::function<bool()>& go_on) = 0;
  virtual absl::Status Push(const std::string& path, const std::string& sha256, uint64_t size,
                            const std::function<bool()>& go_on) = 0;
};

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_BLOB_STORE_LINK_H_
