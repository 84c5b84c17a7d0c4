// Finds the files of a model manifest on this host.

#ifndef ASSAY_WORKER_AGENT_MODEL_RESOLVER_H_
#define ASSAY_WORKER_AGENT_MODEL_RESOLVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/format/digest_cache.h"
#include "storage/format/model_manifest.h"
#include "worker/agent/blob_cache.h"
#include "worker/agent/blob_store_link.h"

namespace assay {

// A model that may be opened: every file has the digest that the manifest says.
struct ResolvedModel {
  std::string path;                  // GGUF file or Hugging Face folder
  std::vector<BlobCache::Pin> pins;  // held while the model is in use; empty under a model root
};

// Looks in the model roots first (ROOT/path, then ROOT/*/path; size, then digest, the latter
// remembered in `digests`), then in the cache, then in the blob store. Only files that a manifest
// names by path and size are ever hashed. Not thread-safe.
class ModelResolver {
 public:
  // `links_dir` gets a folder of links per model that comes from blobs; made when absent,
  // left-overs of other models are harmless. All pointers outlive the resolver.
  ModelResolver(std::vector<std::string> roots, std::string links_dir, DigestCache* digests,
                BlobCache* cache, BlobStoreLink* store);

  // MODEL_NOT_HERE (kFailedPrecondition) when the model is in none of the places; errors of the
  // store otherwise.
  absl::StatusOr<ResolvedModel> Resolve(const ModelManifest& manifest,
                                        const std::function<bool()>& go_on);

 private:
  // The folder that holds every file of the manifest; "" when no root has one.
  absl::StatusOr<std::string> FindInRoots(const ModelManifest& manifest);
  absl::StatusOr<bool> HoldsAll(const std::string& folder, const ModelManifest& manifest);
  absl::StatusOr<ResolvedModel> FromBlobs(const ModelManifest& manifest,
                                          const std::function<bool()>& go_on);

  const std::vector<std::string> roots_;
  const std::string links_dir_;
  DigestCache* const digests_;
  BlobCache* const cache_;
  BlobStoreLink* const store_;
};

// The path to open for a manifest whose files lie in `folder`: the file itself when there is just
// one that is no config.json, else the folder.
std::string ModelPathIn(const std::string& folder, const ModelManifest& manifest);

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_MODEL_RESOLVER_H_
