#include "client/lib/inputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/model_names.h"
#include "storage/format/model_spec.h"
#include "storage/report/operand_info.h"

namespace assay {
namespace {

constexpr std::string_view kModelsPrefix = "models/";
constexpr std::string_view kCapturesPrefix = "captures/";
constexpr size_t kIdentityPrefixMin = 8;
constexpr char kSuiteManifestName[] = "suite-manifest.json";

// A shard view may take its token files from the parent folder.
std::string TokenFilePath(const std::string& dir, const std::string& file) {
  const std::string own = JoinPath(dir, file);
  return FileExists(own) ? own : JoinPath(DirName(dir), file);
}

// True when `name` can mean the model of `manifest` (its own names, the transform aside).
bool Names(const Json& model, std::string_view name) {
  const std::string identity = model.value("identity", "");
  if (identity == name) return true;
  if (name.size() >= kIdentityPrefixMin && identity.compare(0, name.size(), name) == 0) return true;
  const Json& manifest = model["manifest"];
  if (!manifest.is_object() || !manifest.value("transform", "").empty()) return false;
  const Json& files = manifest["files"];
  if (!files.is_array() || files.size() != 1) return false;
  const std::string file = files[0].value("path", "");
  return file == name || file == std::string(name) + ".gguf";
}

absl::StatusOr<ModelManifest> FindRemote(Client* client, const LocalModel& model) {
  ASSAY_ASSIGN_OR_RETURN(const Json models, client->List("models"));
  std::vector<const Json*> found;
  for (const Json& candidate : models) {
    if (Names(candidate, model.remote_name)) found.push_back(&candidate);
  }
  if (found.empty()) {
    return NotFoundError("MODEL_UNKNOWN",
                         fmt::format("{} knows no model {}{}; register it with assay model add "
                                     "where its files are",
                                     client->address(), kModelsPrefix, model.remote_name));
  }
  if (found.size() > 1) {
    return InvalidError(
        "MODEL_AMBIGUOUS",
        fmt::format("{}{} means {} models of {}; use more of the identity, as "
                    "assay model list shows it",
                    kModelsPrefix, model.remote_name, found.size(), client->address()));
  }
  return ParseModelManifest((*found.front())["manifest"], model.text);
}

absl::Status Upload(Client* client, const std::map<std::string, std::string>& path_of_digest,
                    std::string_view what, const UploadProgress& progress) {
  std::vector<std::string> digests;
  for (const auto& [sha256, path] : path_of_digest) digests.push_back(sha256);
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> missing,
                         client->blobs().FindMissing(digests));
  uint64_t total = 0;
  std::vector<uint64_t> sizes;
  for (const std::string& sha256 : missing) {
    ASSAY_ASSIGN_OR_RETURN(const uint64_t size, FileSize(path_of_digest.at(sha256)));
    sizes.push_back(size);
    total += size;
  }
  uint64_t before = 0;
  for (size_t i = 0; i < missing.size(); ++i) {
    const TransferProgress report = [&](uint64_t done, uint64_t) {
      return !progress || progress(what, before + done, total);
    };
    ASSAY_RETURN_IF_ERROR(
        client->blobs().UploadFile(path_of_digest.at(missing[i]), missing[i], sizes[i], report));
    before += sizes[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LocalModel> ParseModelArgument(std::string_view text) {
  ASSAY_ASSIGN_OR_RETURN(ModelSpec spec, ParseModelSpec(text));
  ASSAY_ASSIGN_OR_RETURN(spec.path, ModelPathOf(spec.path));
  LocalModel model;
  model.text = text;
  model.transform = spec.transform;
  const auto remote = [&](std::string_view prefix) {
    if (spec.path.size() <= prefix.size() || spec.path.compare(0, prefix.size(), prefix) != 0 ||
        FileExists(spec.path) || IsDirectory(spec.path)) {
      return false;
    }
    model.remote_name = spec.path.substr(prefix.size());
    return true;
  };
  model.is_capture = remote(kCapturesPrefix);
  if (!model.is_capture && !remote(kModelsPrefix)) {
    model.path = spec.path;
    model.is_capture = FileExists(CaptureManifestPath(spec.path));
  }
  if (model.is_capture && !spec.transform.empty()) {
    return InvalidError("TRANSFORM_INVALID",
                        fmt::format("{}: a transform changes weights, and {} is a capture; capture "
                                    "the transformed model",
                                    text, spec.path));
  }
  return model;
}

absl::Status DigestModel(DigestCache* digests, LocalModel* model) {
  ASSAY_ASSIGN_OR_RETURN(model->manifest,
                         MakeModelManifest(model->path, model->transform, digests));
  std::error_code error;
  const std::string absolute =
      std::filesystem::absolute(model->path, error).lexically_normal().string();
  model->root = IsDirectory(absolute) ? absolute : DirName(absolute);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RegisterSuite(Client* client, const std::string& dir,
                                          const Suite& suite, const UploadProgress& progress) {
  std::map<std::string, std::string> path_of_digest;
  path_of_digest[suite.manifest_sha256] = JoinPath(dir, kSuiteManifestName);
  for (const SuiteContext& context : suite.contexts) {
    path_of_digest.emplace(context.token_sha256, TokenFilePath(dir, context.file));
  }
  ASSAY_RETURN_IF_ERROR(Upload(client, path_of_digest, "upload suite", progress));
  ASSAY_ASSIGN_OR_RETURN(const Json created, client->CreateSuite(suite.manifest_sha256));
  return created.value("name", "");
}

absl::StatusOr<std::string> RegisterModel(Client* client, const LocalModel& model, bool upload,
                                          const UploadProgress& progress) {
  ModelManifest manifest = model.manifest;
  if (!model.remote_name.empty()) {
    ASSAY_ASSIGN_OR_RETURN(manifest, FindRemote(client, model));
    if (!model.transform.empty()) manifest.transform = model.transform;
  } else if (upload) {
    std::map<std::string, std::string> path_of_digest;
    for (const ModelFile& file : manifest.files) {
      path_of_digest.emplace(
          file.sha256, IsDirectory(model.path) ? JoinPath(model.path, file.path) : model.path);
    }
    ASSAY_RETURN_IF_ERROR(Upload(client, path_of_digest, "upload model", progress));
  }
  ASSAY_ASSIGN_OR_RETURN(const Json created, client->CreateModel(manifest.ToJson().dump()));
  return created.value("name", "");
}

absl::StatusOr<std::string> RegisterCapture(Client* client, const std::string& suite_name,
                                            const Suite& suite, const std::string& filter,
                                            const CaptureDir& capture,
                                            const UploadProgress& progress) {
  CaptureImport import;
  import.suite = suite_name;
  import.suite_token_sha256 = capture.manifest.suite_token_sha256;
  import.filter = filter;
  import.cut_point = capture.manifest.cut_point;
  Json manifest = PortableManifest(capture.manifest);
  manifest["manifest_sha256"] = capture.manifest.manifest_sha256;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<size_t> selected, SelectContexts(suite, filter));
  if (capture.files.size() < selected.size()) {
    for (const auto& [index, path] : capture.files) manifest["contexts"].push_back(index);
  }
  ASSAY_ASSIGN_OR_RETURN(import.manifest_json, CanonicalJson(manifest));
  std::map<int64_t, std::string> digests;
  for (const CaptureRecord& record : capture.manifest.records)
    digests[record.index] = record.sha256;
  std::map<std::string, std::string> path_of_digest = {
      {capture.manifest.manifest_sha256, CaptureManifestPath(capture.dir)}};
  for (const SuiteContext& context : suite.contexts) {
    const auto file = capture.files.find(context.index);
    if (file == capture.files.end()) continue;
    const std::string& sha256 = digests.at(context.index);
    path_of_digest[sha256] = file->second;
    ASSAY_ASSIGN_OR_RETURN(const uint64_t bytes, FileSize(file->second));
    import.files.push_back({context.index, sha256, bytes});
  }
  ASSAY_RETURN_IF_ERROR(Upload(client, path_of_digest, "upload capture", progress));
  ASSAY_ASSIGN_OR_RETURN(const Json created, client->ImportCapture(import));
  return created.value("name", "");
}

absl::StatusOr<std::string> UploadBlob(Client* client, const std::string& path,
                                       std::string_view what, const UploadProgress& progress) {
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, Sha256File(path));
  ASSAY_RETURN_IF_ERROR(Upload(client, {{sha256, path}}, what, progress));
  return sha256;
}

uint64_t ModelBytes(const ModelManifest& manifest) {
  uint64_t bytes = 0;
  for (const ModelFile& file : manifest.files) bytes += file.size;
  return bytes;
}

}  // namespace assay
