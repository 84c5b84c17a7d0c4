#include "storage/dataset/scope.h"

#include <algorithm>
#include <vector>

#include "storage/base/number_format.h"
#include "storage/dataset/finding.h"

namespace assay {

std::string DatasetScopeDigest(const Json& scope) {
  std::vector<std::string> segments;
  for (const Json& assignment : DatasetMember(scope, {"assignments"})) {
    std::string segment = DatasetText(DatasetMember(assignment, {"tensor_class"})) + "=" +
                          DatasetText(DatasetMember(assignment, {"treatment"})) + ":" +
                          DatasetText(DatasetMember(assignment, {"format"}));
    const Json& bits = DatasetMember(assignment, {"bits_per_weight"});
    if (bits.is_number()) {
      std::string text = PythonFloat(bits.get<double>());
      if (text.ends_with(".0")) text.resize(text.size() - 2);
      segment += "@" + text;
    }
    segments.push_back(std::move(segment));
  }
  std::sort(segments.begin(), segments.end());
  std::string out;
  for (const std::string& segment : segments) out += segment + "|";
  return out + "head=" + DatasetText(DatasetMember(scope, {"head_policy"})) +
         "|kv=" + DatasetText(DatasetMember(scope, {"kv_cache_dtype"}));
}

}  // namespace assay
