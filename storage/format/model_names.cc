#include "storage/format/model_names.h"

#include <cctype>
#include <cstdlib>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// "" where there is no home.
std::string NamesFolder() {
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (xdg != nullptr && xdg[0] == '/') return JoinPath(xdg, "assay");
  if (home != nullptr && home[0] == '/') return JoinPath(home, ".config/assay");
  return "";
}

}  // namespace

absl::Status CheckModelName(std::string_view name) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  bool good = !name.empty() && name.size() <= kModelNameMax && letter(name[0]);
  for (const char c : name) good = good && (letter(c) || c == '.' || c == '_' || c == '-');
  if (good) return absl::OkStatus();
  return InvalidError("NAME_INVALID",
                      "a model's name is 1 to 64 letters, digits, '.', '_' and '-', the first a "
                      "letter or digit");
}

absl::StatusOr<std::map<std::string, NamedModelPath>> ReadModelNames() {
  std::map<std::string, NamedModelPath> names;
  const std::string folder = NamesFolder(), path = JoinPath(folder, "models.json");
  if (folder.empty() || !FileExists(path)) return names;
  ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kModelNamesBytesMax));
  ASSAY_RETURN_IF_ERROR(JsonFields(json, path).CheckObject());
  for (const auto& [name, entry] : json.items()) {
    const JsonFields fields(entry, path);
    ASSAY_RETURN_IF_ERROR(fields.CheckObject());
    NamedModelPath model;
    ASSAY_ASSIGN_OR_RETURN(model.path, fields.String("path"));
    ASSAY_ASSIGN_OR_RETURN(model.identity, fields.String("identity"));
    names[name] = std::move(model);
  }
  return names;
}

absl::Status RememberModelName(const std::string& name, const NamedModelPath& model) {
  ASSAY_RETURN_IF_ERROR(CheckModelName(name));
  ASSAY_ASSIGN_OR_RETURN(auto names, ReadModelNames());
  const std::string folder = NamesFolder(), file = JoinPath(folder, "models.json");
  if (folder.empty()) {
    return PreconditionError("DATA_DIR_UNKNOWN",
                             "there is no place to keep names in: set HOME or XDG_CONFIG_HOME");
  }
  const auto earlier = names.find(name);
  if (earlier != names.end() && earlier->second.path != model.path) {
    return PreconditionError("NAME_TAKEN",
                             "models/" + name + " stands for " + earlier->second.path +
                                 "; give another --name, or take its line out of " + file);
  }
  names[name] = model;
  Json json = Json::object();
  for (const auto& [key, value] : names) {
    json[key] = {{"path", value.path}, {"identity", value.identity}};
  }
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder, 0700));
  return WriteFileAtomic(file, PythonPrettyJson(json) + "\n");
}

absl::StatusOr<std::string> ModelPathOf(const std::string& path) {
  if (!path.starts_with(kModelNamePrefix) || FileExists(path) || IsDirectory(path)) return path;
  ASSAY_ASSIGN_OR_RETURN(const auto names, ReadModelNames());
  const auto found = names.find(path.substr(kModelNamePrefix.size()));
  if (found == names.end()) return path;
  const std::string& named = found->second.path;
  if (FileExists(named) || IsDirectory(named)) return named;
  return NotFoundError("MODEL_MISSING", path + " stands for " + named +
                                            ", which is not there now; bring it back, or give "
                                            "the model's path");
}

}  // namespace assay
