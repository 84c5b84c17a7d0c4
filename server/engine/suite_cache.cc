#include "server/engine/suite_cache.h"

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {
constexpr size_t kSuitesKept = 4;
constexpr uint64_t kTokenFileBytesMax = uint64_t{64} << 20;
}  // namespace

absl::StatusOr<Suite> SuiteCache::Load(const std::string& manifest_sha256) const {
  ASSAY_ASSIGN_OR_RETURN(const std::string manifest,
                         GetBlob(*blobs_, manifest_sha256, kSuiteManifestBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const Suite parsed,
                         ParseSuiteManifest(manifest, "suites/" + manifest_sha256));
  // Laid out as the published folder so that one reader, with all its checks, reads every suite.
  const std::string folder = JoinPath(work_dir_, manifest_sha256);
  struct Cleanup {
    const std::string& folder;
    ~Cleanup() { RemoveTree(folder).IgnoreError(); }
  } cleanup{folder};
  ASSAY_RETURN_IF_ERROR(RemoveTree(folder));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder, 0750));
  ASSAY_RETURN_IF_ERROR(WriteFile(JoinPath(folder, "suite-manifest.json"), manifest));
  for (const SuiteContext& context : parsed.contexts) {
    if (!blobs_->Has(context.token_sha256)) {
      return PreconditionError("BLOB_MISSING",
                               "token file " + context.file + " (blob " + context.token_sha256 +
                                   ") of the suite is not in the store; upload it first");
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string tokens,
                           GetBlob(*blobs_, context.token_sha256, kTokenFileBytesMax));
    const std::string path = JoinPath(folder, context.file);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(path), 0750));
    ASSAY_RETURN_IF_ERROR(WriteFile(path, tokens));
  }
  return ReadSuite(folder);
}

absl::StatusOr<std::shared_ptr<const Suite>> SuiteCache::Get(const std::string& manifest_sha256) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if (it->first != manifest_sha256) continue;
    recent_.splice(recent_.begin(), recent_, it);
    return recent_.front().second;
  }
  ASSAY_ASSIGN_OR_RETURN(Suite loaded, Load(manifest_sha256));
  auto suite = std::make_shared<const Suite>(std::move(loaded));
  recent_.emplace_front(manifest_sha256, suite);
  if (recent_.size() > kSuitesKept) recent_.pop_back();
  return suite;
}

}  // namespace assay
