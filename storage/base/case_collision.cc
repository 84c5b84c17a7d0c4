#include "storage/base/case_collision.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"

namespace assay {

std::string CaseCollision(std::span<const std::string> paths) {
  std::map<std::string, std::string> spelling;  // of each path and folder, by its lower case
  for (const std::string& path : paths) {
    for (size_t end = 0; end < path.size(); ++end) {
      end = std::min(path.find('/', end), path.size());
      const std::string part = path.substr(0, end);
      const auto& [lower, known] = *spelling.try_emplace(absl::AsciiStrToLower(part), part).first;
      if (known != part) return known + " and " + part;
    }
  }
  return "";
}

}  // namespace assay
