// What is wrong with a dataset: codes and rules of the published validator.

#ifndef ASSAY_STORAGE_DATASET_FINDING_H_
#define ASSAY_STORAGE_DATASET_FINDING_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay {

struct Finding {
  std::string code;     // "seal_failed", "tensor_mismatch", ...: specs fidelity-dataset 6
  std::string rule;     // "SEAL-1(b)", "BIND-6", ...
  std::string message;  // a sentence: what is wrong and where
};

struct Findings {
  std::vector<Finding> errors, warnings;
};

// Members of documents from outside: absent or of another type reads as nothing, and is a finding
// of the structure.
const Json& DatasetMember(const Json& document,
                          std::initializer_list<const char*> path);  // null when absent
std::optional<std::string> DatasetString(const Json& value);
std::optional<int64_t> DatasetInt(const Json& value);  // integers only
bool IsTrue(const Json& value);
// The text of a string, "null" and the like of others: for messages and comparisons of digests.
std::string DatasetText(const Json& value);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_FINDING_H_
