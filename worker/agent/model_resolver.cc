#include "worker/agent/model_resolver.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

std::string ModelPathIn(const std::string& folder, const ModelManifest& manifest) {
  const bool single_file =
      manifest.files.size() == 1 && BaseName(manifest.files.front().path) != "config.json";
  return single_file ? JoinPath(folder, manifest.files.front().path) : folder;
}

ModelResolver::ModelResolver(std::vector<std::string> roots, std::string links_dir,
                             DigestCache* digests, BlobCache* cache, BlobStoreLink* store)
    : roots_(std::move(roots)),
      links_dir_(std::move(links_dir)),
      digests_(digests),
      cache_(cache),
      store_(store) {}

absl::StatusOr<ResolvedModel> ModelResolver::Resolve(const ModelManifest& manifest,
                                                     const std::function<bool()>& go_on) {
  ASSAY_ASSIGN_OR_RETURN(const std::string folder, FindInRoots(manifest));
  if (!folder.empty()) return ResolvedModel{ModelPathIn(folder, manifest), {}};
  return FromBlobs(manifest, go_on);
}

absl::StatusOr<bool> ModelResolver::HoldsAll(const std::string& folder,
                                             const ModelManifest& manifest) {
  // Sizes of all files first: they cost nothing and rule out nearly every wrong folder.
  for (const ModelFile& file : manifest.files) {
    absl::StatusOr<uint64_t> size = FileSize(JoinPath(folder, file.path));
    if (!size.ok() || *size != file.size) return false;
  }
  for (const ModelFile& file : manifest.files) {
    absl::StatusOr<std::string> sha256 = digests_->FileSha256(JoinPath(folder, file.path));
    if (!sha256.ok() || *sha256 != file.sha256) return false;
  }
  return true;
}

absl::StatusOr<std::string> ModelResolver::FindInRoots(const ModelManifest& manifest) {
  for (const std::string& root : roots_) {
    ASSAY_ASSIGN_OR_RETURN(const bool direct, HoldsAll(root, manifest));
    if (direct) return root;
    absl::StatusOr<std::vector<std::string>> names = ListDirectory(root);
    if (!names.ok()) continue;  // a root that is not mounted now may be later
    for (const std::string& name : *names) {
      const std::string folder = JoinPath(root, name);
      if (!IsDirectory(folder)) continue;
      ASSAY_ASSIGN_OR_RETURN(const bool below, HoldsAll(folder, manifest));
      if (below) return folder;
    }
  }
  return std::string();
}

absl::StatusOr<ResolvedModel> ModelResolver::FromBlobs(const ModelManifest& manifest,
                                                       const std::function<bool()>& go_on) {
  std::vector<std::string> not_cached;
  for (const ModelFile& file : manifest.files) {
    if (!cache_->Find(file.sha256, file.size).ok()) not_cached.push_back(file.sha256);
  }
  if (!not_cached.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> missing, store_->FindMissing(not_cached));
    if (!missing.empty()) {
      return PreconditionError(
          "MODEL_NOT_HERE",
          fmt::format("model {} ({}) is in no --model-root of this worker, and {} of its {} files "
                      "are not in the blob store",
                      manifest.Identity(), manifest.files.front().path, missing.size(),
                      manifest.files.size()));
    }
  }
  ResolvedModel model;
  const std::string folder = JoinPath(links_dir_, manifest.Identity());
  for (const ModelFile& file : manifest.files) {
    ASSAY_ASSIGN_OR_RETURN(BlobCache::Pin pin,
                           cache_->Get(file.sha256, file.size, [&](const std::string& path) {
                             return store_->Fetch(file.sha256, path, go_on);
                           }));
    const std::string link = JoinPath(folder, file.path);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(link)));
    unlink(link.c_str());
    // A link is resolved from its own folder, so a relative cache path would lead nowhere.
    std::error_code error;
    const std::string target = std::filesystem::absolute(pin.path(), error).string();
    if (error || symlink(target.c_str(), link.c_str()) != 0) {
      return ErrnoError(errno, fmt::format("cannot link {}", link));
    }
    model.pins.push_back(std::move(pin));
  }
  model.path = ModelPathIn(folder, manifest);
  return model;
}

}  // namespace assay
