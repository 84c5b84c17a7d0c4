#include "storage/format/model_manifest.h"

#include <algorithm>

#include "storage/base/case_collision.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_files.h"
#include "storage/format/model_spec.h"

namespace assay {
namespace {

constexpr int64_t kSizeMax = int64_t{1} << 53;  // what canonical JSON can hold

absl::Status Bad(const std::string& where, const std::string& why) {
  return InvalidError("MODEL_MANIFEST_INVALID", where + ": " + why);
}

absl::StatusOr<std::string> CanonicalTransform(std::string_view transform) {
  if (transform.empty()) return std::string();
  ASSAY_ASSIGN_OR_RETURN(const RtnTransform parsed, ParseRtnTransform(transform));
  return parsed.Canonical();
}

absl::Status CheckNames(const std::string& where, const ModelManifest& manifest) {
  std::vector<std::string> paths;
  for (const ModelFile& file : manifest.files) paths.push_back(file.path);
  const std::string names = CaseCollision(paths);
  if (names.empty()) return absl::OkStatus();
  return InvalidError("PATH_UNSAFE",
                      where + ": " + names + " are one name where case does not count; rename one");
}

}  // namespace

Json ModelManifest::ToJson() const {
  Json list = Json::array();
  for (const ModelFile& file : files) {
    Json row = Json::object();
    row["path"] = file.path;
    row["sha256"] = file.sha256;
    row["size"] = file.size;
    list.push_back(std::move(row));
  }
  Json out = Json::object();
  out["files"] = std::move(list);
  if (!transform.empty()) out["transform"] = transform;
  return out;
}

std::string ModelManifest::Identity() const {
  const auto canonical = CanonicalJson(ToJson());
  // Sizes are bounded by the makers of manifests, so this holds for every manifest that they made.
  return canonical.ok() ? Sha256Hex(*canonical) : std::string();
}

absl::StatusOr<ModelManifest> ParseModelManifest(const Json& json, std::string_view name) {
  const std::string where(name);
  const JsonFields fields(json, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const Json* list, fields.Array("files"));
  if (list->empty() || list->size() > kModelFilesMax)
    return Bad(where, "files must list 1 to " + std::to_string(kModelFilesMax) + " files");
  ModelManifest out;
  for (size_t i = 0; i < list->size(); ++i) {
    const JsonFields row((*list)[i], where + ": files[" + std::to_string(i) + "]");
    ASSAY_RETURN_IF_ERROR(row.CheckObject());
    ModelFile file;
    ASSAY_ASSIGN_OR_RETURN(file.path, row.String("path"));
    ASSAY_ASSIGN_OR_RETURN(file.sha256, row.Sha256("sha256"));
    ASSAY_ASSIGN_OR_RETURN(const int64_t size, row.Int("size", 0, kSizeMax));
    file.size = static_cast<uint64_t>(size);
    if (!IsSafeRelativePath(file.path)) {
      return InvalidError("PATH_UNSAFE", row.where() + ": \"" + file.path.substr(0, 200) +
                                             "\" must be a relative path inside the model");
    }
    if (!out.files.empty() && out.files.back().path >= file.path)
      return Bad(row.where(), "files must be sorted by path, each path once");
    out.files.push_back(std::move(file));
  }
  ASSAY_RETURN_IF_ERROR(CheckNames(where, out));
  if (fields.Has("transform")) {
    ASSAY_ASSIGN_OR_RETURN(out.transform, fields.String("transform"));
    ASSAY_ASSIGN_OR_RETURN(const std::string canonical, CanonicalTransform(out.transform));
    if (canonical != out.transform || canonical.empty())
      return Bad(where, "transform must be spelt \"" + canonical + "\", or left out for none");
  }
  return out;
}

absl::StatusOr<ModelManifest> MakeModelManifest(const std::string& model_path,
                                                std::string_view transform, DigestCache* cache) {
  ModelManifest out;
  ASSAY_ASSIGN_OR_RETURN(out.transform, CanonicalTransform(transform));
  ASSAY_ASSIGN_OR_RETURN(const ModelFiles files, ResolveModelFiles(model_path));
  ASSAY_RETURN_IF_ERROR(CheckModelLinks(files));
  std::vector<std::string> names = files.weights;
  names.insert(names.end(), files.others.begin(), files.others.end());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = JoinPath(files.root, name);
    ModelFile file;
    file.path = name;
    ASSAY_ASSIGN_OR_RETURN(file.size, FileSize(path));
    ASSAY_ASSIGN_OR_RETURN(file.sha256,
                           cache != nullptr ? cache->FileSha256(path) : Sha256File(path));
    if (file.size > static_cast<uint64_t>(kSizeMax)) return Bad(path, "the file is too large");
    if (!IsSafeRelativePath(file.path))
      return InvalidError("PATH_UNSAFE", path + ": rename the file, its name is not usable");
    out.files.push_back(std::move(file));
  }
  ASSAY_RETURN_IF_ERROR(CheckNames(model_path, out));
  return out;
}

}  // namespace assay
