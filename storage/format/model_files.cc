#include "storage/format/model_files.h"

#include <algorithm>
#include <set>

#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/links.h"
#include "storage/format/logits_advice.h"
#include "storage/format/model_manifest.h"
#include "storage/format/model_spec.h"

namespace assay {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kExtension = ".safetensors";

absl::Status Unrecognised(const std::string& path, const std::string& why) {
  return InvalidError("MODEL_UNRECOGNISED",
                      path + ": " + why +
                          "; a model is a GGUF file, or a folder with config.json and "
                          "model.safetensors or model.safetensors.index.json");
}

absl::Status ReadIndex(const std::string& folder, ModelFiles& out) {
  const std::string path = JoinPath(folder, kIndex);
  ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path));
  const JsonFields fields(json, path);
  ASSAY_ASSIGN_OR_RETURN(const Json* map, fields.Object("weight_map"));
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return InvalidError("MODEL_INDEX_INVALID",
                          path + ": weight_map[\"" + tensor.substr(0, 200) + "\"] is no file name");
    }
    const std::string name = file.get<std::string>();
    if (!IsSafeRelativePath(name)) {
      return InvalidError("PATH_UNSAFE", path + ": \"" + name.substr(0, 200) +
                                             "\" must be a relative path inside the model folder");
    }
    out.weight_map[tensor] = name;
    files.insert(name);
  }
  if (files.empty() || files.size() > kModelFilesMax) {
    return InvalidError("MODEL_INDEX_INVALID",
                        path + ": weight_map names " + std::to_string(files.size()) + " files");
  }
  out.weights.assign(files.begin(), files.end());
  for (const std::string& name : out.weights) {
    if (FileExists(JoinPath(folder, name))) continue;
    return NotFoundError("FILE_MISSING", JoinPath(folder, name) + ": named by " +
                                             std::string(kIndex) +
                                             " but not there; finish the download");
  }
  out.others.push_back(kIndex);
  return absl::OkStatus();
}

absl::StatusOr<ModelFiles> ResolveFolder(const std::string& folder) {
  ModelFiles out;
  out.root = folder;
  if (!FileExists(JoinPath(folder, kConfig))) return Unrecognised(folder, "has no config.json");
  out.others.push_back(kConfig);
  if (FileExists(JoinPath(folder, kSingle))) {
    out.weights = {kSingle};
  } else if (FileExists(JoinPath(folder, kIndex))) {
    ASSAY_RETURN_IF_ERROR(ReadIndex(folder, out));
  } else {
    ASSAY_ASSIGN_OR_RETURN(const auto names, ListDirectory(folder));
    for (const std::string& name : names) {
      if (name.size() > kExtension.size() && name.ends_with(kExtension))
        out.weights.push_back(name);
    }
    if (out.weights.size() != 1) {
      return Unrecognised(folder, "holds " + std::to_string(out.weights.size()) +
                                      " safetensors files and no index");
    }
  }
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    if (FileExists(JoinPath(folder, name))) out.others.push_back(name);
  }
  return out;
}

}  // namespace

absl::Status CheckModelLinks(const ModelFiles& files) {
  if (files.gguf) return absl::OkStatus();
  for (const std::vector<std::string>* names : {&files.weights, &files.others}) {
    ASSAY_RETURN_IF_ERROR(CheckLinksStayInside(files.root, *names, "model"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelFiles> ResolveModelFiles(const std::string& model_path) {
  if (IsDirectory(model_path)) return ResolveFolder(model_path);
  if (!FileExists(model_path)) return MissingModelError(model_path);
  ASSAY_ASSIGN_OR_RETURN(const auto mapping, MappedFile::Open(model_path));
  const auto bytes = mapping->bytes();
  const std::string_view magic = "GGUF";
  if (bytes.size() < magic.size() || !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    const std::string advice = LogitsFileAdvice(model_path);
    return Unrecognised(model_path, advice.empty() ? "does not start with \"GGUF\"" : advice);
  }
  ModelFiles out;
  out.gguf = true;
  out.root = DirName(model_path);
  out.weights = {BaseName(model_path)};
  return out;
}

}  // namespace assay
