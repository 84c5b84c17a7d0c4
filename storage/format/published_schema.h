// Schema strings of the published suites: "qwen38-fidelity-report/3" is family "qwen38", kind
// "fidelity-report", generation 3. The families share their forms (specs: qwen-suites,
// fidelity-dataset 9.2).

#ifndef ASSAY_STORAGE_FORMAT_PUBLISHED_SCHEMA_H_
#define ASSAY_STORAGE_FORMAT_PUBLISHED_SCHEMA_H_

#include <string>
#include <string_view>

#include "storage/base/json.h"

namespace assay {

struct PublishedSchema {
  std::string family;  // "qwen38" or "glm53flash"; "" = no schema of theirs
  std::string kind;    // "distribution-fidelity", "fidelity-capture", "fidelity-report", ...
  int generation = 0;  // 1 to 99

  bool Is(std::string_view wanted) const { return !family.empty() && kind == wanted; }
  // "FAMILY-KIND/GENERATION" of another document of the family.
  std::string Sibling(std::string_view other_kind, int other_generation) const;
};

PublishedSchema ParsePublishedSchema(std::string_view schema);
// Of document["schema"].
PublishedSchema PublishedSchemaOf(const Json& document);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_PUBLISHED_SCHEMA_H_
