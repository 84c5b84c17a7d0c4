// Names that a person has given to models on this node: models/NAME stands for a path.
//
// Kept for a user, in $XDG_CONFIG_HOME/assay/models.json, else ~/.config/assay/models.json:
// {"NAME": {"path", "identity"}}. Paths stay on the node; no coordinator and no report sees them.

#ifndef ASSAY_STORAGE_FORMAT_MODEL_NAMES_H_
#define ASSAY_STORAGE_FORMAT_MODEL_NAMES_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

inline constexpr std::string_view kModelNamePrefix = "models/";
inline constexpr size_t kModelNameMax = 64;
inline constexpr uint64_t kModelNamesBytesMax = uint64_t{16} << 20;

struct NamedModelPath {
  std::string path;      // absolute
  std::string identity;  // of its manifest when it was named
};

// NAME_INVALID unless 1 to 64 of [A-Za-z0-9._-], the first a letter or digit.
absl::Status CheckModelName(std::string_view name);

// Empty where nothing was named. JSON_INVALID and FIELD_* for a damaged file.
absl::StatusOr<std::map<std::string, NamedModelPath>> ReadModelNames();

// NAME_TAKEN when the name stands for another path already.
absl::Status RememberModelName(const std::string& name, const NamedModelPath& model);

// The path that `path` stands for when it is models/NAME, nothing on disk is called so, and NAME
// was given on this node; else `path` itself. MODEL_MISSING when what was named is not there now.
absl::StatusOr<std::string> ModelPathOf(const std::string& path);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_MODEL_NAMES_H_
