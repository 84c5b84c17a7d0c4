#include "storage/format/links.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kSnapshots = "/snapshots/";

// Where the files of a folder may lie; each ends with '/'.
std::vector<std::string> AllowedFolders(const std::string& root) {
  std::vector<std::string> out = {root + "/"};
  const size_t snapshots = (root + "/").rfind(kSnapshots);
  if (snapshots != std::string::npos) out.push_back(root.substr(0, snapshots) + "/blobs/");
  return out;
}

}  // namespace

absl::Status CheckLinksStayInside(const std::string& root, const std::vector<std::string>& names,
                                  const std::string& what) {
  std::error_code error;
  const std::string real_root = std::filesystem::canonical(root, error).string();
  if (error) return ErrnoError(error.value(), root);
  const std::vector<std::string> allowed = AllowedFolders(real_root);
  for (const std::string& name : names) {
    const std::string path = JoinPath(root, name);
    const std::string target = std::filesystem::canonical(path, error).string();
    if (error) return ErrnoError(error.value(), path);
    const bool inside = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& folder) {
      return target.compare(0, folder.size(), folder) == 0;
    });
    if (inside) continue;
    return InvalidError("PATH_UNSAFE",
                        path + ": the link leads to " + target + ", outside the " + what +
                            " folder and the blobs of its cache; put the file itself there, or "
                            "name the folder that holds it");
  }
  return absl::OkStatus();
}

}  // namespace assay
